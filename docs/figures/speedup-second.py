"""Like speedup.py: a small and a large model on one GPU and on two. The commands of speedup-second.txt stand below the figure in
docs/slides/1-one-gpu.md."""
from speedup import bars, rates_of


def draw(text):
    small, small2, large, large2 = rates_of(text)
    return bars("Speed-up with a second GPU", [("small model: hidden layers 512, 512", {1: small, 2: small2}),
                                               ("large model: hidden layers 4096, 4096, 4096", {1: large, 2: large2})])
