"""What a rank sends in a training step of steps 4, 5 and 7, with the model of docs/slides/large.sh on 8 ranks."""
from drawing import COMMUNICATE, COPY, FOURTH, bars
from formulas import all_gather_bytes, gpus, reduce_scatter_bytes
from strategies import GB, LAYERS, of_parts

RANKS, RATE = 8, gpus()["h100"]["link"]
# Name, and bytes for each parameter of the gather in forward, of that in backward, and of the sum in backward.
ROWS = (("step 4: all-reduce", (0, 4, 4)), ("step 5: FSDP", (4, 4, 4)), ("step 7, bfloat16", (2, 2, 4)))
PARTS = (("gather in forward", COPY), ("reduce-scatter", COMMUNICATE), ("gather after it, or in backward", FOURTH))


def draw():
    rows = []
    for name, (forward, backward, summed) in ROWS:
        sizes = (all_gather_bytes(forward * sum(LAYERS), RANKS), reduce_scatter_bytes(summed * sum(LAYERS), RANKS),
                 all_gather_bytes(backward * sum(LAYERS), RANKS))
        rows.append(of_parts(name, [size / GB for size in sizes], PARTS, f", {1e3 * sum(sizes) / RATE:.0f} ms"))
    return bars("Bytes that a rank sends in a training step", f"{sum(LAYERS) / GB:.1f} billion parameters on {RANKS} ranks, in GB.",
                rows, 220, 640, PARTS, 70, 84, 58)
