"""A run that goes straight to its end, and one that stops after 175 steps and continues from its snapshot."""
from drawing import COMPUTE, HOST, UPDATE, Figure

STEPS, STOP, LEFT, SCALE = 2 * (60000 // 512), 175, 170, 3.6


def draw():
    f = Figure("A run that stops, and one that does not", f"Both runs have {STEPS} training steps. One of them stops after step {STOP} and continues "
               "from its snapshot. At the end, their snapshots have the same bits.", 210)
    end = LEFT + STEPS * SCALE
    for y, name, parts in ((20, "straight.bin", ((0, STEPS),)), (110, "stopped.bin", ((0, STOP), (STOP, STEPS)))):
        f.text(LEFT - 16, y + 30, name, 20, "end", code=False, bold=True)
        for first, last in parts:
            f.box(LEFT + first * SCALE, y, (last - first) * SCALE - 8, 60, f"steps {first + 1} to {last}", COMPUTE, size=20)
        f.area(end - 8, y - 4, 12, 68, UPDATE.line)
    f.area(LEFT + STOP * SCALE - 10, 106, 12, 68, UPDATE.line)
    f.text(LEFT + STOP * SCALE - 4, 192, "a snapshot, and a new start", 18)
    f.arrow((end + 12, 50), (end + 60, 50), (end + 60, 140), (end + 12, 140), colour=HOST, both=True)
    f.text(end + 62, 192, "equal bits", 18, bold=True)
    return f
