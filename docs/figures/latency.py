"""The time of a sum of eight modelled H100 against its size, both logarithmic. latency.txt holds what the commands below the figure in
docs/slides/2-data-parallel.md print."""
import math
import re

from drawing import COMMUNICATE, COMPUTE, HOST, Figure

LEFT, RIGHT, TOP, BOTTOM, MOST = 90, 1060, 44, 250, 100  # microseconds at the top


def draw(table):
    with open(table, encoding="utf-8") as file:
        rows = [(int(size), float(us)) for size, us in re.findall(r"^(\d+) bytes: ([\d.]+) us", file.read(), re.M)]
    f = Figure("The time of a sum against its size", "Eight modelled H100. " + " ".join(f"{size:,} bytes: {us:.2f} us." for size, us in rows), 320)

    def place(size, us):
        share = math.log(size / rows[0][0]) / math.log(rows[-1][0] / rows[0][0])
        return LEFT + 20 + (RIGHT - LEFT - 20) * share, BOTTOM - (BOTTOM - TOP) * us / MOST
    for us in range(0, MOST + 1, 25):
        f.line((LEFT, place(rows[0][0], us)[1]), (RIGHT + 30, place(rows[0][0], us)[1]), colour=HOST, thick=1)
        f.text(LEFT - 14, place(rows[0][0], us)[1], str(us), 18, "end")
    f.line(*(place(*row) for row in rows), colour=COMPUTE, thick=3)
    for size, us in rows:
        x, y = place(size, us)
        f.disc(x, y, 8, COMPUTE)
        f.text(x, BOTTOM + 30, f"{size:,} B\n{us:.2f} µs", 18, bold=True)
    f.line((LEFT, place(1, rows[0][1])[1]), (RIGHT + 30, place(1, rows[0][1])[1]), colour=COMMUNICATE, dashed=True)
    f.text(10, 14, "microseconds, modelled; dashed: the latency; the sizes are logarithmic", 20, "start")
    return f
