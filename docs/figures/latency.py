"""The time of a sum of eight modelled H100 against its size, both logarithmic. latency.txt holds what the commands below the figure in
docs/slides/2-data-parallel.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, Figure, log_scale

LEFT, RIGHT, TOP, BOTTOM, MOST = 90, 1060, 44, 250, 100  # microseconds at the top


def draw(text):
    rows = [(int(size), float(us)) for size, us in re.findall(r"^(\d+) bytes: ([\d.]+) us", text, re.M)]
    x = log_scale(rows[0][0], rows[-1][0], LEFT + 20, RIGHT)
    f = Figure("The time of a sum against its size", "Eight modelled H100. " + " ".join(f"{size:,} bytes: {us:.2f} us." for size, us in rows), 320)

    def y(us):
        return BOTTOM - (BOTTOM - TOP) * us / MOST
    for us in range(0, MOST + 1, 25):
        f.line((LEFT, y(us)), (RIGHT + 30, y(us)), colour=HOST, thick=1)
        f.text(LEFT - 14, y(us), str(us), 18, "end")
    f.line(*((x(size), y(us)) for size, us in rows), colour=COMPUTE, thick=3)
    for size, us in rows:
        f.disc(x(size), y(us), 8, COMPUTE)
        f.text(x(size), BOTTOM + 30, f"{size:,} B\n{us:.2f} µs", 18, bold=True)
    f.line((LEFT, y(rows[0][1])), (RIGHT + 30, y(rows[0][1])), colour=COMMUNICATE, dashed=True)
    f.text(10, 14, "microseconds, modelled; dashed: the latency; the sizes are logarithmic", 20, "start")
    return f
