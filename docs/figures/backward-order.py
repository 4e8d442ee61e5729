"""What the two streams of each rank do in backward of step 2: the sum of a layer runs while the layer before it is computed.
All parts have the same length here."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Figure

LEFT, WIDTH, HEIGHT, PITCH = 150, 138, 64, 160
RANKS, SUMS = (24, 330), 178  # the tops of the rows
WORK = (("forward", COPY), ("backward\nlayer 3", COMPUTE), ("backward\nlayer 2", COMPUTE), ("backward\nlayer 1", COMPUTE),
        ("nothing\nto compute", HOST), ("update", UPDATE))


def draw():
    f = Figure("The order of backward and of the sums", "Each rank computes forward, then backward of layers 3, 2 and 1. The sum of the gradients "
               "of layer 3 runs while the rank computes layer 2, that of layer 2 while it computes layer 1. Nothing is left to compute "
               "during the sum of layer 1. Then the update begins.", 450)
    for rank, y in enumerate(RANKS):
        f.text(16, y + HEIGHT / 2, f"rank {rank}\ncomputes", 20, "start", bold=True)
        for i, (name, colour) in enumerate(WORK):
            f.box(LEFT + i * PITCH, y, WIDTH, HEIGHT, name, colour, solid=colour != HOST, dashed=colour == HOST, size=20)
    f.text(16, SUMS + HEIGHT / 2, "the ranks\nsum", 20, "start", bold=True)
    for layer, i in ((3, 2), (2, 3), (1, 4)):
        x = LEFT + i * PITCH
        f.box(x, SUMS, WIDTH, HEIGHT, f"gradients\nof layer {layer}", COMMUNICATE, solid=True, size=20)
        f.arrow((x - 8, RANKS[0] + HEIGHT + 2), (x - 8, SUMS + HEIGHT / 2 - 12), (x - 1, SUMS + HEIGHT / 2 - 12))
        f.arrow((x - 8, RANKS[1] - 2), (x - 8, SUMS + HEIGHT / 2 + 12), (x - 1, SUMS + HEIGHT / 2 + 12))
    for y in (RANKS[0] + HEIGHT + 2, RANKS[1] - 2):
        f.arrow((LEFT + 4 * PITCH + WIDTH + 4, SUMS + HEIGHT / 2), (LEFT + 5 * PITCH + 40, SUMS + HEIGHT / 2), (LEFT + 5 * PITCH + 40, y))
    f.text(LEFT + 5 * PITCH + 84, SUMS + HEIGHT / 2, "update\nwaits", 20)
    f.text(LEFT, 428, "time runs to the right", 20, "start")
    return f
