"""A training step of step 5 without prefetch: what two ranks hold of layers A and B (05_fsdp/fsdp.c). Session 4 shows some
frames larger, each with the memory of a rank until then, in layers and without the optimizer."""
import json

from drawing import COMMUNICATE, COMPUTE, COPY, HOST, PLAIN, UPDATE, Figure, read

# The frames, which the web site also shows: the name, the layer in the buffer (g: its gradients), and the summed gradients.
FRAMES = json.loads(read("docs/figures/fsdp.json"))
COLOURS = {"gather": COMMUNICATE, "scatter": COMMUNICATE, "forward": COMPUTE, "backward": COMPUTE, "free": HOST, "update": UPDATE}
RANKS, FRAME, CELL, HEIGHT, BETWEEN = 2, 147, 40, 86, 26
LEFT, PITCH, BOTTOM, LAYER = 60, 75, 468, 44  # of the chart of a rank's memory: a bar for each frame, and a layer's height


def name_of(f, x, y, width, name):
    work = COLOURS.get(name.split()[0])
    f.box(x, y, width, 30, name, work or PLAIN, solid=bool(work), size=18, bold=True)
    return work


def memory(f, x, y, rank, frame, width=FRAME - 7, cell=CELL, size=18):
    name, buffer, summed = frame
    updated = name == "update"
    f.area(x, y, width, 2 * cell + 6, "none", HOST.line, corner=6)
    for row, layer in enumerate("AB"):
        top = y + 4 + row * cell
        f.box(x + 4, top, cell, cell - 2, f"{layer}{rank}", COMPUTE, size=size, bold=updated, solid=updated)
        if layer in summed:
            f.box(x + 6 + cell, top, cell + 2, cell - 2, f"g{layer}{rank}", COMMUNICATE, solid=True, size=size)
        if buffer:
            f.box(x + width - 6 - cell, top, cell + 2, cell - 2, f"{buffer}{row}", COMMUNICATE if "g" in buffer else COMPUTE, size=size)


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
    f.legend(LEFT, 226, (("shard of the parameters", COMPUTE), ("gathered layer, or its gradients", COPY), ("summed gradients", COMMUNICATE)))
    top = BOTTOM - 4 * LAYER
    f.line((LEFT, top), (LEFT + PITCH * len(FRAMES), top), colour=HOST, dashed=True, thick=3)
    f.text(LEFT + PITCH * len(FRAMES), top - 16, "all parameters and gradients", 18, "end")
    for layers in range(5):
        f.text(LEFT - 14, BOTTOM - layers * LAYER, str(layers), 18, "end")
    for i, (name, buffer, summed) in enumerate(FRAMES):
        x, y = LEFT + i * PITCH, BOTTOM
        for layers, colour in ((2 / RANKS, COMPUTE), (bool(buffer), COPY), (len(summed) / RANKS, COMMUNICATE)) * (i < count):
            y -= layers * LAYER
            f.area(x + 4, y, PITCH - 8, layers * LAYER, colour.line)
        f.text(x + PITCH / 2, BOTTOM + 32, name.replace(" ", "\n").replace("backward", "backw."), 18, bold=i == count - 1)
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
    for x, name, colour, solid, meaning in ((90, "gA0", COMMUNICATE, False, "gradient of this rank's samples"),
                                            (500, "gA0", COMMUNICATE, True, "sum over both ranks"),
                                            (800, "A0", COMPUTE, True, "updated")):
        f.box(x, 491, 42, 27, name, colour, solid=solid, size=18)
        f.text(x + 52, 505, meaning, 18, "start")
    return f


pictures = {str(count): lambda count=count: build(count) for count in range(1, len(FRAMES) + 1)}
