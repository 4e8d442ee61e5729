"""What a loader costs: three training steps of the first rungs of the ladder, as an H200 measured them (ladder.py). Rung 2 has no
loader, so its step is all computing, which takes as long on the other rungs."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, Figure, read
from ladder import MEASURED, TABLE

STEPS, LEFT, TOP, ROW, BLOCK = 3, 100, 42, 40, 134
ROWS = ("rung 0: the host makes a batch, copies it, and waits", "rung 1: other threads make batches ahead", "rung 2: no loader, all images are on the GPU")


def draw():
    ms = {int(rung): float(time) for rung, time in re.findall(MEASURED, read(TABLE))}
    computing, scale = ms[2], 990 / STEPS / ms[0]
    f = Figure("Training steps with and without a loader", "From times of steps that an H200 measured. " + " ".join(
        f"{name}: {ms[rung]:.3f} ms for a step; the GPU computes for {computing:.3f} ms of it." for rung, name in enumerate(ROWS)), 420)
    for rung, name in enumerate(ROWS):
        top, step = TOP + BLOCK * rung, ms[rung]
        count = int((STEPS * ms[0] - (step if rung == 1 else 0)) / step + 1e-9)
        loads = ((0, step - computing), (0, step), (0, 0))[rung]  # of a batch, within a step
        begins = (step - computing, step, 0)[rung]  # when the batch is there
        f.text(10, top - 20, f"{name}: {step:.3f} ms a step", 20, "start", bold=True)
        for row, (lane, begin, end, colour) in enumerate((("loader", *loads, COMMUNICATE), ("GPU", begins, begins + computing, COMPUTE))):
            f.lane(LEFT, top + row * ROW, ROW - 6, scale, lane, (count - 1) * step + begins + computing, [
                (i * step + begin, i * step + end, str(i), colour, True) for i in range(count) if end > begin])
    f.legend(LEFT, 406, (("a batch is made and copied", COMMUNICATE), ("computing", COMPUTE), ("waits", HOST, False)))
    return f
