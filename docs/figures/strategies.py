"""Bytes that a rank stores with each strategy of step 7, for the model of docs/slides/large.sh with Adam in fp32, without
activations. An H100 has the memory of the modelled one (cpu_device/README.md)."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, Axes, Figure
from formulas import gpus, memory_per_rank, mlp_layers

LAYERS = mlp_layers(784, *[21600] * 16, 10)
GPUS_PER_NODE = 8
RANKS = tuple(2 ** i for i in range(11))
GB = 1e9
CAPACITY = gpus()["h100"]["capacity"] / GB
LIMIT = (CAPACITY, f"an H100 has {CAPACITY:.1f} GB")
MODEL = f"{sum(LAYERS) / GB:.1f} billion parameters"


def of_parts(name, sizes, parts, more=""):
    """A row of bars: sizes in GB of parts, which are (text, colour)."""
    return name, [(size, colour, f"{size:.1f}") for size, (_, colour) in zip(sizes, parts)], f"{sum(sizes):.1f} GB{more}"


def stored(strategy, ranks):
    return memory_per_rank(LAYERS, strategy, ranks, min(ranks, GPUS_PER_NODE))


def draw():
    f = Figure("Memory of a rank with each sharding strategy",
               f"{MODEL} with Adam in fp32, {len(LAYERS)} layers, {GPUS_PER_NODE} GPUs per node, without activations. "
               + " ".join(f"With {s} on {RANKS[-1]:,} ranks, each rank stores {stored(s, RANKS[-1]) / GB:.1f} GB."
                          for s in ("none", "grad", "hybrid", "full")))
    axes = Axes(f, 84, 62, 830, 388, RANKS, 120, 20, ("ranks", "GB per rank, computed"))
    f.text(1100, 28, f"{MODEL}, Adam, fp32, {len(LAYERS)} layers, no activations", 18, "end")
    f.line((84, axes.y(CAPACITY)), (914, axes.y(CAPACITY)), colour=HOST, thick=2.5, dashed=True)
    f.text(902, axes.y(CAPACITY) - 18, f"{CAPACITY:.1f} GB, as an H100 has", 18, "end")
    for strategy, colour, mark in (("none", HOST, "square"), ("grad", FOURTH, "triangle"),
                                   ("hybrid", COMMUNICATE, "diamond"), ("full", COMPUTE, "circle")):
        axes.curve([(n, stored(strategy, n) / GB) for n in RANKS], colour, mark)
        last = stored(strategy, RANKS[-1]) / GB
        f.text(924, axes.y(last), f"{strategy}: {last:.1f} GB", 20, "start", bold=True)
    return f
