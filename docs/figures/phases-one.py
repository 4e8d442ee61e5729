"""The phases of a training step of the default model on one modelled H100. phases-one.txt holds what --profile prints; its commands
stand below the figure in docs/slides/1-one-gpu.md."""
from phases import of_profiles


def draw(text):
    return of_profiles("A training step of the default model", ["a step"], text)
