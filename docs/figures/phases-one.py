"""The phases of a training step of the default model on one modelled H100. phases-one.txt holds what --profile prints; its commands
stand below the figure in docs/slides/1-one-gpu.md."""
import os

from phases import bars

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    return bars("A training step of the default model", ["a step"], table)
