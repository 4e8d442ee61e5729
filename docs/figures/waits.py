"""The images per second of the modelled H100 if the host reads the loss every 100 training steps, or in each. waits.txt holds what the
commands below the figure in docs/slides/1-one-gpu.md print."""
import os
import re

from accuracy import bars
from drawing import COMMUNICATE, COMPUTE

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    with open(table, encoding="utf-8") as file:
        seldom, always = map(int, re.findall(r"(\d+) images/s", file.read()))
    return bars("Images per second with and without a wait in each step", [
        ("--log-every 100", seldom, COMPUTE, f"{seldom:,} images/s"), ("--log-every 1", always, COMMUNICATE, f"{always:,} images/s")], 560)
