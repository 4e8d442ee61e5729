"""Bytes that a rank stores with each strategy of step 7, computed as in print_costs (07_large_models/costs.c), for Adam in
fp32, without activations. An H100 has 80 GB: https://www.nvidia.com/en-us/data-center/h100/"""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, UPDATE, Axes, Figure

PARAMETERS, UNITS, GPUS_PER_NODE = 7e9, 32, 8
RANKS = tuple(2 ** i for i in range(11))
GB = 1e9


def stored(strategy, ranks):
    """Parameters, gradients and two states of 4 bytes each, in shards, and the gathered parameters."""
    shards = {"none": 1, "hybrid": min(ranks, GPUS_PER_NODE)}.get(strategy, ranks)
    units = {"none": 0, "grad": UNITS}.get(strategy, 2)  # that are gathered at the same time
    return 16 * PARAMETERS / shards + (4 * PARAMETERS * units / UNITS if shards > 1 else 0)


def draw():
    f = Figure("Memory of a rank with each sharding strategy",
               f"{PARAMETERS / GB:g} billion parameters with Adam in fp32, {UNITS} units, {GPUS_PER_NODE} GPUs per node, "
               "without activations. "
               + " ".join(f"With {s} on {RANKS[-1]:,} ranks, each rank stores {stored(s, RANKS[-1]) / GB:.1f} GB."
                          for s in ("none", "grad", "hybrid", "full")))
    axes = Axes(f, 84, 62, 830, 388, RANKS, 120, 20, ("ranks", "GB per rank, computed"))
    f.text(1100, 28, f"{PARAMETERS / GB:g} billion parameters, Adam, fp32, {UNITS} units, no activations", 18, "end")
    f.line((84, axes.y(80)), (914, axes.y(80)), colour=HOST, thick=2.5, dashed=True)
    f.text(902, axes.y(80) - 18, "80 GB, as an H100 has", 18, "end")
    for strategy, colour, mark in (("none", HOST, "square"), ("grad", FOURTH, "triangle"),
                                   ("hybrid", COMMUNICATE, "diamond"), ("full", COMPUTE, "circle")):
        axes.curve([(n, stored(strategy, n) / GB) for n in RANKS], colour, mark)
        last = stored(strategy, RANKS[-1]) / GB
        f.text(924, axes.y(last), f"{strategy}: {last:.1f} GB", 20, "start", bold=True)
    return f
