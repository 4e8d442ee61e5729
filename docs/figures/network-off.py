"""The bus bandwidth of two modelled nodes with and without InfiniBand. network-off.txt holds what the commands below the figure in
docs/slides/3-many-nodes.md print."""
import re

from accuracy import bars
from drawing import COMMUNICATE, COMPUTE


def draw(table):
    with open(table, encoding="utf-8") as file:
        fast, slow = map(float, re.findall(r"([\d.]+) GB/s", file.read()))
    return bars("Bus bandwidth of an all-reduce with and without InfiniBand", [
        ("InfiniBand", fast, COMPUTE, f"{fast:.2f} GB/s"), ("NCCL_IB_DISABLE=1: TCP", slow, COMMUNICATE, f"{slow:.2f} GB/s")])
