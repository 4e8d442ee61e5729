"""The memory of a rank over the training step of fsdp.py, in layers: its shard, the gathered layer, and the summed gradients."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure
from fsdp import FRAMES, RANKS

LEFT, WIDTH, BOTTOM, SCALE = 70, 74, 300, 62  # pixels; for each frame, and for each layer
LAYERS = 2


def draw():
    parts = [(LAYERS / RANKS, bool(buffer), len(summed) / RANKS) for _, buffer, summed in FRAMES]
    most = max(map(sum, parts))
    f = Figure("The memory of a rank over a training step", f"With two layers and two ranks, without the optimizer. A rank always stores one "
               f"layer, and at most {most:g}. A rank with the whole model and all gradients stores {2 * LAYERS}.", BOTTOM + 80)
    f.legend(LEFT, 20, (("shard of the parameters", COMPUTE), ("gathered layer, or its gradients", COPY), ("summed gradients", COMMUNICATE)))
    top = BOTTOM - 2 * LAYERS * SCALE
    f.line((LEFT, top), (LEFT + WIDTH * len(FRAMES), top), colour=HOST, dashed=True, thick=3)
    f.text(LEFT + WIDTH * len(FRAMES), top + 20, "without sharding: parameters and gradients", 18, "end")
    for layers in range(2 * LAYERS + 1):
        f.text(LEFT - 14, BOTTOM - layers * SCALE, str(layers), 18, "end")
    for i, ((name, *_), sizes) in enumerate(zip(FRAMES, parts)):
        y = BOTTOM
        for size, colour in zip(sizes, (COMPUTE, COPY, COMMUNICATE)):
            y -= size * SCALE
            f.area(LEFT + i * WIDTH + 4, y, WIDTH - 8, size * SCALE, colour.line)
        f.text(LEFT + (i + 0.5) * WIDTH, BOTTOM + 34, name.replace(" ", "\n").replace("backward", "backw."), 18)
    f.text(10, BOTTOM + 68, "layers in memory", 18, "start")
    return f
