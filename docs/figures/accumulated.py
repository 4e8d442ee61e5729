"""What a rank stores and sends if it computes its images in one part and in four, from the runs of hiding.py."""
from hiding import draw_bytes


def draw():
    return draw_bytes("Memory and messages with accumulation", (("bf16", "--accumulate 1"), ("parts", "--accumulate 4")), False)
