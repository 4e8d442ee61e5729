"""The pieces of two layers on four ranks, with padding."""
import math

from drawing import COMPUTE, HOST, UPDATE, Figure

LAYERS, RANKS = (("layer A: 10 parameters", 10, COMPUTE), ("layer B: 2 parameters", 2, UPDATE)), 4
LEFT, TOP, CELL, PITCH = 270, 66, 66, 110


def draw():
    f = Figure("Pieces and padding", f"{RANKS} ranks. " + " ".join(
        f"{name}: pieces of {math.ceil(count / RANKS)}, {math.ceil(count / RANKS) * RANKS - count} of padding." for name, count, _
        in LAYERS), 280)
    for rank in range(RANKS):
        f.text(LEFT + (rank + 0.5) * 3 * CELL + rank * 14, 26, f"rank {rank}", 22, bold=True)
    for row, (name, count, colour) in enumerate(LAYERS):
        y, piece = TOP + row * PITCH, math.ceil(count / RANKS)
        f.text(LEFT - 18, y + CELL / 2, name, 20, "end")
        for at in range(piece * RANKS):
            x = LEFT + at // piece * (3 * CELL + 14) + at % piece * CELL
            if at < count:
                f.box(x, y, CELL, CELL, f"{at}", colour, size=24)
            else:
                f.box(x, y, CELL, CELL, "zero", HOST, dashed=True, size=20)
    return f
