"""Where the 16 bytes for each parameter of Adam go, for the model of docs/slides/large.sh: in fp32, and in mixed precision
(https://arxiv.org/abs/1910.02054, section 3.1)."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, UPDATE, bars
from strategies import GB, LAYERS, LIMIT, of_parts

ROWS = (("all in fp32", (4, 4, 0, 8)), ("with 16-bit numbers", (2, 2, 4, 8)))  # bytes for each parameter
PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("parameters in fp32", FOURTH), ("Adam's two states", UPDATE))


def draw():
    billions = sum(LAYERS) / GB
    return bars("Memory for the states of a model", f"{billions:.1f} billion parameters with Adam, in GB.",
                [of_parts(name, [size * billions for size in sizes], PARTS) for name, sizes in ROWS],
                210, 6.6 * 16 * billions, PARTS, 92, 100, 64, LIMIT)
