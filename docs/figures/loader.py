"""What a loader costs: the first rungs of the ladder, which train the same model, as an H200 measured them (ladder.py)."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, bars, read
from ladder import MEASURED, TABLE

ROWS = ((0, "the host makes a batch, copies it, and waits", HOST), (1, "other threads make batches ahead", COMMUNICATE),
        (2, "no loader: all images are on the GPU", COMPUTE))


def draw():
    ms = {int(rung): float(time) for rung, time in re.findall(MEASURED, read(TABLE))}
    f = bars("A training step with and without a loader", "Measured on an H200. Rungs 0, 1 and 2.",
             [("", [(ms[rung], colour)], f"{ms[rung]:.3f} ms") for rung, _, colour in ROWS], 30, 900, top=36, pitch=80, height=36)
    for rung, name, _ in ROWS:
        f.text(30, 20 + 80 * rung, f"rung {rung}: {name}", 20, "start")
    return f
