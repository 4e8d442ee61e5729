"""What a rank sends in a training step of steps 4, 5 and 7, with the model of docs/slides/large.sh on 8 ranks."""
from drawing import COMMUNICATE, COPY, FOURTH, Figure
from formulas import all_gather_bytes, gpus, reduce_scatter_bytes
from strategies import GB, LAYERS

RANKS, RATE = 8, gpus()["h100"]["link"]
# Name, and bytes for each parameter of the gather in forward, of that in backward, and of the sum in backward.
ROWS = (("step 4: all-reduce", (0, 4, 4)), ("step 5: FSDP", (4, 4, 4)), ("step 7, bfloat16", (2, 2, 4)))
LEFT, TOP, PITCH, HEIGHT, SCALE = 220, 70, 84, 58, 8.6


def draw():
    rows = []
    for name, (forward, backward, summed) in ROWS:
        sizes = (all_gather_bytes(forward * sum(LAYERS), RANKS), reduce_scatter_bytes(summed * sum(LAYERS), RANKS),
                 all_gather_bytes(backward * sum(LAYERS), RANKS))
        rows.append((name, [size / GB for size in sizes], sum(sizes)))
    f = Figure("Bytes that a rank sends in a training step", f"{sum(LAYERS) / GB:.1f} billion parameters on {RANKS} ranks: " + ", ".join(
        f"{name} {total / GB:.1f} GB" for name, _, total in rows) + ".", TOP + PITCH * len(rows))
    entries = (("gather in forward", COPY), ("reduce-scatter", COMMUNICATE), ("gather after it, or in backward", FOURTH))
    f.legend(LEFT, 24, entries)
    for i, (name, sizes, total) in enumerate(rows):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(size, colour, f"{size:.1f}") for size, (_, colour) in zip(sizes, entries)],
              f"{total / GB:.1f} GB, {1e3 * total / RATE:.0f} ms", name=name)
    return f
