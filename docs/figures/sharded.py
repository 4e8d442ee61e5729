"""What fills the memory of a rank when step 5 shards the model of docs/slides/large.sh, with 2,048 images per rank. One rank
alone needs no buffer for gathered layers."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, UPDATE, bars
from formulas import gathered_bytes, mlp_activation_bytes, shard_parameters
from strategies import GB, LAYERS, LIMIT, of_parts

RANKS, WIDTHS, IMAGES = (1, 2, 4, 8, 64), (784, *[21600] * 16, 10), 2048
PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("Adam's states", UPDATE), ("gathered", FOURTH), ("activations", COPY))


def sizes(ranks):
    """In GB, in the order of PARTS."""
    shard = shard_parameters(LAYERS, ranks)
    return [size / GB for size in (4 * shard, 4 * shard, 8 * shard, gathered_bytes(LAYERS, "full", ranks),
                                   mlp_activation_bytes(IMAGES, *WIDTHS))]


def draw():
    return bars("Memory of a rank of step 5", f"{sum(LAYERS) / GB:.1f} billion parameters, Adam, fp32, {IMAGES:,} images per rank, in GB.",
                [of_parts(f"{n} rank{'s' * (n > 1)}", sizes(n), PARTS) for n in RANKS], 110, 7.4 * sum(sizes(1)), PARTS, 70, 68, 48, LIMIT)
