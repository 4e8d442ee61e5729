"""Memory and time with and without recomputation, from the runs of hiding.py."""
from hiding import draw_bytes


def draw():
    return draw_bytes("Memory and time with recomputation", (("units", "--recompute 0"), ("recomputed", "--recompute 1")), True)
