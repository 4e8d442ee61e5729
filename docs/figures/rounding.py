"""How far the losses of three ranks are from those of one GPU (losses.txt), on a logarithmic scale."""
import math

from drawing import COMMUNICATE, HOST, Figure, read
from losses import rows_of

LEFT, RIGHT, TOP, BOTTOM = 110, 1090, 40, 230
LEAST, MOST = -9, -3  # powers of ten


def draw():
    rows = [(step, abs(three / one - 1)) for step, one, three in rows_of(read("docs/figures/losses.txt"))]
    f = Figure("The difference of the losses of one GPU and of three ranks", "Relative differences of two runs with the same seed grow from "
               f"{max(rows[0][1], 10 ** LEAST):.0e} in step {rows[0][0]:.0f} to {rows[-1][1]:.0e} in step {rows[-1][0]:.0f}.", BOTTOM + 54)
    for power in range(LEAST, MOST + 1, 2):
        y = BOTTOM - (BOTTOM - TOP) * (power - LEAST) / (MOST - LEAST)
        f.line((LEFT, y), (RIGHT, y), colour=HOST, thick=1)
        f.text(LEFT - 12, y, f"1e{power}", 18, "end")
    for step, difference in rows:
        y = BOTTOM - (BOTTOM - TOP) * (max(math.log10(max(difference, 1e-20)), LEAST) - LEAST) / (MOST - LEAST)
        f.disc(LEFT + (RIGHT - LEFT) * step / rows[-1][0], y, 8, COMMUNICATE)
    for step in range(0, int(rows[-1][0]) + 1, 20):
        f.text(LEFT + (RIGHT - LEFT) * step / rows[-1][0], BOTTOM + 20, str(step), 18)
    f.text((LEFT + RIGHT) / 2, BOTTOM + 42, "training step", 18)
    f.text(10, 14, "relative difference of the losses", 20, "start")
    return f
