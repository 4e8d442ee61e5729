"""The bus bandwidth of two modelled nodes with and without InfiniBand: what the commands below the figure in
docs/slides/3-many-nodes.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, bars


def draw(text):
    fast, slow = map(float, re.findall(r"([\d.]+) GB/s", text))
    return bars("Bus bandwidth of an all-reduce with and without InfiniBand", "", [
        ("InfiniBand", [(fast, COMPUTE)], f"{fast:.2f} GB/s"), ("NCCL_IB_DISABLE=1: TCP", [(slow, COMMUNICATE)], f"{slow:.2f} GB/s")], 330, 640)
