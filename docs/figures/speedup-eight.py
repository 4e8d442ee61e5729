"""Like speedup.py: the model at the beginning of session 2. The commands of speedup-eight.txt stand below the figure in
docs/slides/2-data-parallel.md."""
from speedup import bars, rates_of


def draw(text):
    return bars("Speed-up with up to eight GPUs", [("4096,4096, batch 4,096", dict(zip((1, 2, 4, 8), rates_of(text))))])
