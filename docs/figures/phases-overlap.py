"""Like phases.py: the large model on four GPUs, without overlap and with it. The commands of phases-overlap.txt stand below the
figure in docs/slides/2-data-parallel.md."""
from phases import of_profiles


def draw(text):
    return of_profiles("A training step without and with overlap", ["--overlap 0", "--overlap 1"], text)
