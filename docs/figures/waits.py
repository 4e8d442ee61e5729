"""The images per second of the modelled H100 if the host reads the loss every 100 training steps, or in each: what the commands
below the figure in docs/slides/1-one-gpu.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, bars


def draw(text):
    seldom, always = map(int, re.findall(r"(\d+) images/s", text))
    return bars("Images per second with and without a wait in each step", "", [
        ("--log-every 100", [(seldom, COMPUTE)], f"{seldom:,} images/s"), ("--log-every 1", [(always, COMMUNICATE)], f"{always:,} images/s")], 330, 560)
