"""How long GPUs would train Llama 3 405B at 40 % of their largest rate, on a logarithmic scale."""
import math

from drawing import COMPUTE, HOST, Figure
from formulas import PEAK_BF16, training_flops

DAYS = training_flops(405e9, 15.6e12) / (0.4 * PEAK_BF16["h100"]) / 86400  # of one GPU
LEFT, TOP, PITCH, HEIGHT, SCALE = 250, 44, 62, 46, 100  # pixels for a factor of ten
GPUS = ((1, "1 GPU"), (8, "8 GPUs: a node"), (1024, "1,024 GPUs"), (16384, "16,384 GPUs"))


def draw():
    rows = [(name, DAYS / gpus, f"{DAYS / gpus:.0f} days" if DAYS / gpus < 365 else f"{float(f'{DAYS / gpus / 365:.2g}'):,g} years")
            for gpus, name in GPUS]
    f = Figure("The time to train Llama 3 405B", "; ".join(f"{name}: {text}" for name, _, text in rows) + ".", TOP + PITCH * len(rows))
    for power in range(7):
        x = LEFT + power * SCALE
        f.line((x, TOP - 12), (x, TOP + PITCH * len(rows) - 10), colour=HOST, thick=1)
        f.text(x, TOP - 28, f"{10 ** power:,}", 18)
    f.text(1100, TOP - 28, "days, logarithmic", 18, "end")
    for i, (name, days, text) in enumerate(rows):
        y, width = TOP + PITCH * i, math.log10(days) * SCALE
        f.area(LEFT + width + 6, y + 4, 124, HEIGHT - 8, "#FFFFFF")
        f.bar(LEFT, y, HEIGHT, 1, ((width, COMPUTE),), text, name=name)
    return f
