"""What fills a GPU's memory in training: bytes per parameter, and the sizes that step 1 prints for its default model."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, Figure

IMAGES, TRAINING, WIDTHS, BATCH = 70_000, 60_000, (784, 512, 512, 10), 128
PARAMETERS = sum((a + 1) * b for a, b in zip(WIDTHS, WIDTHS[1:]))
# Bytes of the arrays of setup (01_single_gpu/train.c); sums of a few bytes are left out.
SIZES = (("data", HOST, IMAGES * (WIDTHS[0] + 1) + 4 * TRAINING),  # a byte per pixel and label, and the shuffled order
         ("parameters", COMPUTE, 4 * PARAMETERS), ("gradients", COMMUNICATE, 4 * PARAMETERS),
         ("momentum", UPDATE, 4 * PARAMETERS),
         ("activations", COPY, 4 * BATCH * (sum(WIDTHS) + 2 * max(WIDTHS[1:]))))  # with the two gradients dy and dx
ARRAYS = (("parameters", COMPUTE), ("gradients", COMMUNICATE))
OPTIMIZERS = (("SGD with momentum", (("momentum", UPDATE),)), ("Adam", (("1st moments", UPDATE), ("2nd moments", FOURTH))))


def draw():
    total = sum(size for _, _, size in SIZES)
    f = Figure("Memory of a training run",
               "In fp32, each parameter needs 4 bytes for itself, 4 for its gradient, and 4 for the momentum of SGD or 8 "
               "for Adam's two moments: 12 or 16 bytes. The default model with SGD: " +
               ", ".join(f"{name} {size / 1e6:.1f} MB" for name, _, size in SIZES)
               + f"; together {total / 1e6:.1f} MB.")
    f.text(20, 28, "Bytes per parameter, fp32", 22, "start", bold=True)
    for row, (optimizer, states) in enumerate(OPTIMIZERS):
        y = 56 + row * 82
        f.text(212, y + 32, optimizer, 20, "end")
        parts = ARRAYS + states
        for i, (name, colour) in enumerate(parts):
            f.box(228 + i * 186, y, 182, 64, f"{name}\n4", colour)
        f.text(228 + len(parts) * 186 + 12, y + 32, f"= {4 * len(parts)}", 24, "start", bold=True)
    f.text(20, 248, f"Step 1: MNIST, {PARAMETERS:,} parameters, SGD with momentum, batch {BATCH}", 22, "start", bold=True)
    for row, (name, colour, size) in enumerate(SIZES):
        y = 276 + row * 48
        f.bar(228, y, 36, 744 / SIZES[0][2], [(size, colour)], f"{size / 1e6:.1f} MB", name)
    return f
