"""The images per second of the modelled H100 if the host reads the loss every 100 training steps, or in each. waits.txt holds what the
commands below the figure in docs/slides/1-one-gpu.md print."""
import re

from accuracy import bars
from drawing import COMMUNICATE, COMPUTE


def draw(table):
    with open(table, encoding="utf-8") as file:
        seldom, always = map(int, re.findall(r"(\d+) images/s", file.read()))
    return bars("Images per second with and without a wait in each step", [
        ("--log-every 100", seldom, COMPUTE, f"{seldom:,} images/s"), ("--log-every 1", always, COMMUNICATE, f"{always:,} images/s")], 560)
