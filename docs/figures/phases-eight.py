"""Like phases.py: the default model, 128 samples on one GPU and 16 on each of eight. The commands of phases-eight.txt stand below
the figure in docs/slides/2-data-parallel.md."""
import os

from phases import bars

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    return bars("A training step with batch 128 on one GPU and on eight", ["1 GPU", "8 GPUs"], table)
