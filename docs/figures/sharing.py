"""What a rank stores and sends with each strategy on 64 GPUs, for the model of docs/slides/large.sh. Step 7 has no ZeRO-1:
its row is computed with the same bytes for each parameter, and only the optimizer's states divided."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, UPDATE, bars
from formulas import all_reduce_bytes, gathered_bytes, groups, sent_per_step, shard_parameters
from strategies import GB, GPUS_PER_NODE, LAYERS, LIMIT

RANKS = 64
PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("Adam's states", UPDATE), ("gathered", FOURTH))
LEFT, TOP, PITCH, HEIGHT, RIGHT = 110, 98, 68, 48, 800


def sizes(strategy):
    """GB in the order of PARTS, and GB sent."""
    if strategy == "ZeRO-1":
        whole = 4 * sum(LAYERS)
        return [size / GB for size in (whole, whole, 2 * whole / RANKS, 0)], all_reduce_bytes(whole, RANKS) / GB
    shards, _ = groups(strategy, RANKS, GPUS_PER_NODE)
    shard = shard_parameters(LAYERS, shards)
    stored = (4 * shard, 4 * shard, 8 * shard, gathered_bytes(LAYERS, strategy, shards))
    return [size / GB for size in stored], sent_per_step(LAYERS, strategy, RANKS, GPUS_PER_NODE) / GB


def draw():
    rows = [(name, *sizes(name)) for name in ("none", "ZeRO-1", "grad", "hybrid", "full")]
    f = bars("Memory and messages of each strategy", f"{sum(LAYERS) / GB:.1f} billion parameters, Adam, fp32, {RANKS} GPUs in nodes of "
             f"{GPUS_PER_NODE}, without activations, in GB.", [
                 (name, list(zip(stored, (colour for _, colour in PARTS))), f"{sum(stored):.1f}") for name, stored, _ in rows],
             LEFT, 481, PARTS, TOP, PITCH, HEIGHT, LIMIT)
    f.description += " Sent in a step: " + ", ".join(f"{name} {sent:.1f}" for name, _, sent in rows) + "."
    f.text(LEFT, 66, "GB stored by a rank", 20, "start", bold=True)
    f.text(RIGHT, 66, "GB sent in a step", 20, "start", bold=True)
    for i, (_, _, sent) in enumerate(rows):
        f.bar(RIGHT, TOP + i * PITCH, HEIGHT, 2.6, [(sent, HOST)], f"{sent:.1f}")
    return f
