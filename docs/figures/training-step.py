"""A training step of step 1 as arrays and operations, for the default model and batch (01_single_gpu/train.c)."""
from drawing import COMPUTE, COPY, HOST, UPDATE, Figure

BATCH, WIDTHS = 128, (784, 512, 512, 10)
LAYERS = len(WIDTHS) - 1
PARAMETERS = sum((a + 1) * b for a, b in zip(WIDTHS, WIDTHS[1:]))
BOX, GAP, HEIGHT = 146, 87.5, 72
FORWARD, STORED, BACKWARD, GRADIENTS = 24, 152, 290, 418  # the tops of the rows


def left(column):
    return 20 + column * (BOX + GAP)


def draw():
    f = Figure("A training step and its arrays",
               f"Gather batch takes {BATCH} images of {WIDTHS[0]} pixels. Forward runs through {LAYERS} layers, and loss "
               "compares the outputs with the labels. Backward runs through the layers in reverse order, reads the "
               "parameters and the activations that forward has kept, and writes the gradients. Update changes the "
               f"{PARAMETERS:,} parameters, which the next training step uses.")
    middle = HEIGHT / 2
    for top in (STORED, GRADIENTS):  # each is one array
        f.area(left(1) - 12, top - 10, left(LAYERS) + BOX - left(1) + 24, HEIGHT + 20, "#F7FBFE", COPY.line, dashed=True,
               corner=8)
    f.box(left(0), FORWARD, BOX, HEIGHT, "gather\nbatch", COPY)
    f.box(left(LAYERS + 1), FORWARD, BOX, HEIGHT, "loss", COMPUTE)
    for i in range(LAYERS):
        x, center, size = left(i + 1), left(i + 1) + BOX / 2, f"{WIDTHS[i]}×{WIDTHS[i + 1]} + {WIDTHS[i + 1]}"
        f.box(x, FORWARD, BOX, HEIGHT, f"forward\nlayer {i + 1}", COMPUTE)
        f.box(x, BACKWARD, BOX, HEIGHT, f"backward\nlayer {i + 1}", COMPUTE)
        f.box(x, STORED, BOX, HEIGHT, f"parameters\n{size}", COPY, size=18)
        f.box(x, GRADIENTS, BOX, HEIGHT, f"gradients\n{size}", COPY, size=18)
        f.arrow((center, STORED), (center, FORWARD + HEIGHT))
        f.arrow((center, STORED + HEIGHT), (center, BACKWARD))
        f.arrow((center, BACKWARD + HEIGHT), (center, GRADIENTS))
        kept = x - GAP / 2  # the input of the layer
        f.arrow((kept, FORWARD + middle), (kept, BACKWARD - 22), (x + 26, BACKWARD - 22), (x + 26, BACKWARD), colour=HOST,
                dashed=True)
    for i, width in enumerate(WIDTHS):
        f.arrow((left(i) + BOX, FORWARD + middle), (left(i + 1), FORWARD + middle))
        f.text(left(i) + BOX + GAP / 2, FORWARD + middle - 20, f"{BATCH}×{width}", 18)
    loss = left(LAYERS + 1) + BOX / 2
    f.arrow((loss, FORWARD + HEIGHT), (loss, BACKWARD + middle), (left(LAYERS) + BOX, BACKWARD + middle))
    for i in range(1, LAYERS + 1):
        f.text(left(i) + BOX + GAP / 2, BACKWARD + middle + 20, f"{BATCH}×{WIDTHS[i]}", 18)
        if i < LAYERS:
            f.arrow((left(i + 1), BACKWARD + middle), (left(i) + BOX, BACKWARD + middle))
    f.box(left(0), GRADIENTS, BOX, HEIGHT, "update", UPDATE)
    f.arrow((left(1) - 12, GRADIENTS + middle), (left(0) + BOX, GRADIENTS + middle), colour=UPDATE)
    f.arrow((left(0) + BOX / 2, GRADIENTS), (left(0) + BOX / 2, STORED + middle), (left(1) - 12, STORED + middle),
            colour=UPDATE)
    end = left(LAYERS + 1) - 40
    f.text(end, STORED + middle, f"{PARAMETERS:,}\nfloats", 20, "start")
    f.arrow((end, GRADIENTS + middle), (end + 44, GRADIENTS + middle), colour=HOST, dashed=True)
    f.text(end + 54, GRADIENTS + middle, "activations,\nkept for\nbackward", 18, "start")
    return f
