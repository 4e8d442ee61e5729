"""How often a job fails and should save, on a logarithmic scale. One failure in 54 days x 16,384 GPUs / 419 for each GPU (the
Llama 3 Herd of Models, arXiv 2407.21783, section 3.3.4), and Young's interval for a save of 60 s."""
import math

from drawing import COMMUNICATE, UPDATE, Figure
from formulas import seconds_between_failures, snapshot_interval
from on_paper import SECONDS_TO_FAILURE

GPUS, SAVE = (8, 64, 1024, 16384), 60
LEFT, TOP, PITCH, HEIGHT, WIDTH = 150, 70, 96, 36, 680
LEAST, MOST = 600, 3e7  # seconds at both ends


def text_of(seconds):
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit or unit == 60:
            return f"{seconds / unit:.{1 if seconds < 4 * unit else 0}f} {name}"


def draw():
    rows = [(n, seconds_between_failures(n, SECONDS_TO_FAILURE)) for n in GPUS]
    rows = [(n, failure, snapshot_interval(SAVE, failure)) for n, failure in rows]
    f = Figure("Time between failures, and between snapshots", f"With a save of {SAVE} s: " + "; ".join(
        f"on {n:,} GPUs a failure every {text_of(failure)}, a snapshot every {text_of(interval)}" for n, failure, interval in rows)
        + ".", TOP + PITCH * len(rows))
    f.legend(LEFT, 24, (("between two failures", COMMUNICATE), (f"best between two snapshots, if a save takes {SAVE} s", UPDATE)))
    f.text(1100, 24, "logarithmic", 18, "end")
    for i, (n, *times) in enumerate(rows):
        y = TOP + i * PITCH
        f.text(LEFT - 14, y + HEIGHT, f"{n:,} GPUs", 20, "end")
        for seconds, colour in zip(times, (COMMUNICATE, UPDATE)):
            length = WIDTH * math.log(seconds / LEAST) / math.log(MOST / LEAST)
            f.bar(LEFT, y, HEIGHT, 1, [(length, colour)], text_of(seconds))
            y += HEIGHT + 2
    return f
