"""A training step of step 5 without prefetch: what two ranks hold of layers A and B (05_fsdp/fsdp.c). Session 4 shows some
frames larger, each with the memory of a rank until then, in halves of a layer and without the optimizer."""
import json

from drawing import COMMUNICATE, COMPUTE, HOST, PLAIN, UPDATE, WHITE, Colour, Figure, read

# The web site shows the same. A kind: the colour, that of its letters, and what it is. A frame: the name, the layer in the buffer
# (g: its gradients), and the summed gradients.
FILM = json.loads(read("docs/figures/fsdp.json"))
FRAMES, KINDS = FILM["frames"], {name: Colour(line, WHITE, letters) for name, (line, letters, _) in FILM["kinds"].items()}
COLOURS = {"gather": COMMUNICATE, "scatter": COMMUNICATE, "forward": COMPUTE, "backward": COMPUTE, "free": HOST, "update": UPDATE}
RANKS, FRAME, CELL, HEIGHT, BETWEEN = 2, 147, 40, 86, 26
LEFT, PITCH, BOTTOM, HALF, WHOLE = 60, 75, 468, 22, 8  # of the chart of a rank's memory: a bar for each frame, and a half's height


def name_of(f, x, y, width, name):
    work = COLOURS.get(name.split()[0])
    f.box(x, y, width, 30, name, work or PLAIN, solid=bool(work), size=18, bold=True)
    return work


def held(frame, rank):
    """The halves that a rank holds: (name, kind, column, row)."""
    name, buffer, summed = frame
    yield from ((f"{layer}{rank}", "updated" if name == "update" else "half", 0, row) for row, layer in enumerate("AB"))
    yield from ((f"g{layer}{rank}", "sum", 1, "AB".index(layer)) for layer in summed)
    yield from ((f"{buffer}{row}", "own" if "g" in buffer else "gathered", 2, row) for row in range(2) if buffer)


def memory(f, x, y, rank, frame, width=FRAME - 7, cell=CELL, size=18):
    f.area(x, y, width, 2 * cell + 6, "none", HOST.line, corner=6)
    for name, kind, column, row in held(frame, rank):
        left = (x + 4, x + 6 + cell, x + width - 6 - cell)[column]
        f.box(left, y + 4 + row * cell, cell + 2 * (column > 0), cell - 2, name, KINDS[kind], solid=True, size=size)


def build(count):
    """The last one of so many frames, and the memory of a rank in each of them."""
    f = Figure("A frame of sharded training", f"{FRAMES[count - 1][0]}, and the memory of a rank until then.")
    work = name_of(f, 230, 4, 710, FRAMES[count - 1][0])
    for rank in range(RANKS):
        x = 230 + rank * 400
        f.text(x + 155, 56, f"rank {rank}", 20, bold=True)
        memory(f, x, 72, rank, FRAMES[count - 1], 310, 60, 24)
    if work is COMMUNICATE:
        f.arrow((548, 135), (622, 135), colour=COMMUNICATE, both=True)
    f.legend(10, 226, [(FILM["kinds"][kind][2], KINDS[kind]) for kind in ("half", "gathered", "own", "sum")])
    top = BOTTOM - WHOLE * HALF
    f.line((LEFT, top), (LEFT + PITCH * len(FRAMES), top), colour=HOST, dashed=True, thick=3)
    f.text(LEFT + PITCH * len(FRAMES), top - 16, f"{WHOLE} halves: all parameters and gradients", 18, "end")
    for halves in range(0, WHOLE + 1, 2):
        f.text(LEFT - 14, BOTTOM - halves * HALF, str(halves), 18, "end")
    for i, frame in enumerate(FRAMES):
        x = LEFT + i * PITCH
        for k, (_, kind, _, _) in enumerate(held(frame, 0) if i < count else ()):
            f.area(x + 4, BOTTOM - (k + 1) * HALF, PITCH - 8, HALF - 1, KINDS[kind].line)
        f.text(x + PITCH / 2, BOTTOM + 32, frame[0].replace(" ", "\n").replace("backward", "backw."), 18, bold=i == count - 1)
    return f


def draw():
    f = Figure("Sharded training as a film strip",
               "Two ranks train a model of two layers, A and B. Rank 0 keeps the first halves A0 and B0, rank 1 the "
               "second halves A1 and B1. Forward: the ranks gather A, compute it, free it, and do the same with B. "
               "Backward: they gather B, compute its gradients gB, and scatter them: each rank keeps the sum of its half, "
               "and frees the rest. The same follows for A. Then each rank updates its halves.")
    for s, strip in enumerate((FRAMES[:7], FRAMES[7:])):
        y = 4 + s * 246
        for i, frame in enumerate(strip):
            x = 90 + i * FRAME
            work = name_of(f, x, y, FRAME - 7, frame[0])
            for rank in range(RANKS):
                memory(f, x, y + 36 + rank * (HEIGHT + BETWEEN), rank, frame)
            if work is COMMUNICATE:
                center = x + FRAME - 33
                f.arrow((center, y + 36 + HEIGHT), (center, y + 36 + HEIGHT + BETWEEN), colour=COMMUNICATE, both=True)
        for rank in range(RANKS):
            f.text(10, y + 36 + HEIGHT / 2 + rank * (HEIGHT + BETWEEN), f"rank {rank}", 20, "start", bold=True)
    f.legend(10, 505, [(words, KINDS[kind]) for kind, (_, _, words) in FILM["kinds"].items() if kind not in ("half", "gathered")])
    return f


pictures = {str(count): lambda count=count: build(count) for count in range(1, len(FRAMES) + 1)}
