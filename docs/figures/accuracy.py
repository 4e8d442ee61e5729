"""The accuracy after an epoch with four batches: what the commands below the figure in docs/slides/1-one-gpu.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, bars


def draw(text):
    rows = [(options, float(percent)) for options, percent in re.findall(r"^(--.*): accuracy ([\d.]+)%$", text, re.M)]
    return bars("The accuracy after an epoch with larger batches", "In percent.", [
        (options, [(percent, COMPUTE if percent > 90 else COMMUNICATE)], f"{percent:.2f} %") for options, percent in rows], 330, 640)
