"""The times of a training step with fp32 and with bfloat16, from the runs of hiding.py."""
from hiding import draw_times


def draw():
    return draw_times("A training step in fp32 and in bfloat16", (("fp32", "--precision fp32"), ("bf16", "--precision bf16")), 2.5)
