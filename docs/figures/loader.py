"""What a loader costs: the first rungs of the ladder, which train the same model, as an H200 measured them (ladder.py)."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, Figure
from ladder import MEASURED, TABLE

ROWS = ((0, "the host makes a batch, copies it, and waits", HOST), (1, "other threads make batches ahead", COMMUNICATE),
        (2, "no loader: all images are on the GPU", COMPUTE))


def draw():
    with open(TABLE, encoding="utf-8") as file:
        ms = {int(rung): float(time) for rung, time in re.findall(MEASURED, file.read())}
    f = Figure("A training step with and without a loader", "Measured on an H200. " + " ".join(
        f"Rung {rung}, {name}: {ms[rung]:.3f} ms." for rung, name, _ in ROWS), 250)
    for i, (rung, name, colour) in enumerate(ROWS):
        y = 8 + 80 * i
        f.text(30, y + 12, f"rung {rung}: {name}", 20, "start")
        f.bar(30, y + 28, 36, 900 / ms[0], [(ms[rung], colour)], f"{ms[rung]:.3f} ms")
    return f
