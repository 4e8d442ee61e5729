"""Like speedup.py, but each GPU keeps its 1,024 images (weak scaling). The commands of speedup-weak.txt stand below the figure
in docs/slides/1-one-gpu.md."""
from speedup import bars, rates_of


def draw(text):
    return bars("Speed-up with the same work for each GPU", [("4096,4096,4096, 1,024 images per GPU", dict(zip((1, 2, 4, 8), rates_of(text))))])
