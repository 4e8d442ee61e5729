"""A training step of step 5 without prefetch: what two ranks hold of layers A and B (05_fsdp/fsdp.c)."""
import json
import os

from drawing import COMMUNICATE, COMPUTE, HOST, PLAIN, UPDATE, Figure

# The frames, which the web site also shows: the name, the layer in the buffer (g: its gradients), and the summed gradients.
with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "fsdp.json"), encoding="ascii") as file:
    FRAMES = json.load(file)
COLOURS = {"gather": COMMUNICATE, "scatter": COMMUNICATE, "forward": COMPUTE, "backward": COMPUTE, "free": HOST, "update": UPDATE}
RANKS, FRAME, CELL, HEIGHT, BETWEEN = 2, 147, 40, 86, 26


def memory(f, x, y, rank, buffer, summed, updated):
    f.area(x, y, FRAME - 7, HEIGHT, "none", HOST.line, corner=6)
    for row, layer in enumerate("AB"):
        top = y + 4 + row * CELL
        f.box(x + 4, top, CELL, CELL - 2, f"{layer}{rank}", COMPUTE, size=18, bold=updated, solid=updated)
        if layer in summed:
            f.box(x + 6 + CELL, top, CELL + 2, CELL - 2, f"g{layer}{rank}", COMMUNICATE, solid=True, size=18)
        if buffer:
            f.box(x + FRAME - 13 - CELL, top, CELL + 2, CELL - 2, f"{buffer}{row}",
                  COMMUNICATE if "g" in buffer else COMPUTE, size=18)


def draw():
    f = Figure("Sharded training as a film strip",
               "Two ranks train a model of two layers, A and B. Rank 0 keeps the first halves A0 and B0, rank 1 the "
               "second halves A1 and B1. Forward: the ranks gather A, compute it, free it, and do the same with B. "
               "Backward: they gather B, compute its gradients gB, and scatter them: each rank keeps the sum of its half, "
               "and frees the rest. The same follows for A. Then each rank updates its halves.")
    for s, strip in enumerate((FRAMES[:7], FRAMES[7:])):
        y = 4 + s * 246
        for i, (name, buffer, summed) in enumerate(strip):
            x, work = 90 + i * FRAME, COLOURS.get(name.split()[0])
            f.box(x, y, FRAME - 7, 30, name, work or PLAIN, solid=bool(work), size=18, bold=True)
            for rank in range(RANKS):
                memory(f, x, y + 36 + rank * (HEIGHT + BETWEEN), rank, buffer, summed, name == "update")
            if work is COMMUNICATE:
                center = x + FRAME - 33
                f.arrow((center, y + 36 + HEIGHT), (center, y + 36 + HEIGHT + BETWEEN), colour=COMMUNICATE, both=True)
        for rank in range(RANKS):
            f.text(10, y + 36 + HEIGHT / 2 + rank * (HEIGHT + BETWEEN), f"rank {rank}", 20, "start", bold=True)
    for x, name, colour, solid, meaning in ((90, "gA0", COMMUNICATE, False, "gradient of this rank's samples"),
                                            (500, "gA0", COMMUNICATE, True, "sum over both ranks"),
                                            (800, "A0", COMPUTE, True, "updated")):
        f.box(x, 491, 42, 27, name, colour, solid=solid, size=18)
        f.text(x + 52, 505, meaning, 18, "start")
    return f
