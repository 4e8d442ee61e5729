"""What fills the memory of a rank when step 5 shards the model of docs/slides/large.sh, with 2,048 images per rank. One rank
alone needs no buffer for gathered layers."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, Figure
from formulas import gathered_bytes, mlp_activation_bytes, shard_parameters
from strategies import CAPACITY, GB, LAYERS

RANKS, WIDTHS, IMAGES = (1, 2, 4, 8, 64), (784, *[21600] * 16, 10), 2048
PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("Adam's states", UPDATE), ("gathered", FOURTH), ("activations", COPY))
LEFT, TOP, PITCH, HEIGHT, SCALE = 110, 70, 68, 48, 7.4


def sizes(ranks):
    """In GB, in the order of PARTS."""
    shard = shard_parameters(LAYERS, ranks)
    return [size / GB for size in (4 * shard, 4 * shard, 8 * shard, gathered_bytes(LAYERS, "full", ranks),
                                   mlp_activation_bytes(IMAGES, *WIDTHS))]


def draw():
    f = Figure("Memory of a rank of step 5", f"{sum(LAYERS) / GB:.1f} billion parameters, Adam, fp32, {IMAGES:,} images per rank: " +
               ", ".join(f"{sum(sizes(n)):.1f} GB with {n} ranks" for n in RANKS) + ".", TOP + PITCH * len(RANKS) + 44)
    f.legend(LEFT, 24, PARTS)
    end = LEFT + CAPACITY * SCALE
    f.line((end, TOP - 14), (end, TOP + PITCH * len(RANKS) - 4), colour=HOST, thick=3, dashed=True)
    f.text(end, TOP + PITCH * len(RANKS) + 16, f"an H100 has {CAPACITY:.1f} GB", 20)
    for i, n in enumerate(RANKS):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(size, colour, f"{size:.1f}") for size, (_, colour) in zip(sizes(n), PARTS)],
              f"{sum(sizes(n)):.1f} GB", name=f"{n} rank{'s' * (n > 1)}")
    return f
