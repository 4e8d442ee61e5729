"""Like phases.py: the large model on four GPUs, without overlap and with it. The commands of phases-overlap.txt stand below the
figure in docs/slides/2-data-parallel.md."""
import os

from phases import bars

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    return bars("A training step without and with overlap", ["--overlap 0", "--overlap 1"], table)
