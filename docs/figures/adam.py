"""Where the 16 bytes for each parameter of Adam go, for the model of docs/slides/large.sh: in fp32, and in mixed precision
(https://arxiv.org/abs/1910.02054, section 3.1)."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, UPDATE, Figure
from strategies import CAPACITY, GB, LAYERS

ROWS = (("all in fp32", (4, 4, 0, 8)), ("with 16-bit numbers", (2, 2, 4, 8)))  # bytes for each parameter
PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("parameters in fp32", FOURTH), ("Adam's two states", UPDATE))
LEFT, TOP, PITCH, HEIGHT, SCALE = 210, 92, 100, 64, 6.6


def draw():
    billions = sum(LAYERS) / GB
    f = Figure("Memory for the states of a model", f"{billions:.1f} billion parameters with Adam. " + " ".join(
        f"{name}: " + ", ".join(f"{part} {size * billions:.1f} GB" for (part, _), size in zip(PARTS, sizes) if size)
        + f"; together {sum(sizes) * billions:.1f} GB." for name, sizes in ROWS), TOP + PITCH * len(ROWS) + 40)
    f.legend(LEFT, 24, PARTS)
    end = LEFT + CAPACITY * SCALE
    f.line((end, TOP - 14), (end, TOP + PITCH * len(ROWS)), colour=HOST, thick=3, dashed=True)
    f.text(end, TOP + PITCH * len(ROWS) + 18, f"an H100 has {CAPACITY:.1f} GB", 20)
    for i, (name, sizes) in enumerate(ROWS):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(size * billions, colour, f"{size * billions:.1f}")
                                       for size, (_, colour) in zip(sizes, PARTS)], f"{sum(sizes) * billions:.1f} GB", name=name)
    return f
