"""A training step of two models on four modelled GPUs, on a logarithmic scale. gpus-models.txt has a row for each GPU, with the
milliseconds of the small and of the large model; its commands stand below the figure in docs/slides/1-one-gpu.md."""
import math

from drawing import COMMUNICATE, COMPUTE, HOST, Figure

LEFT, WIDTH, PITCH, HEIGHT = 96, 860, 60, 23  # of the bars
LEAST, MOST = 0.01, 100  # ms at the two ends of the axis


def x(ms):
    return LEFT + WIDTH * math.log(ms / LEAST) / math.log(MOST / LEAST)


def draw(table):
    with open(table, encoding="utf-8") as file:
        rows = [(line.split()[-1].upper(), float(line.split()[0]), float(line.split()[1])) for line in file]
    bottom = 40 + PITCH * len(rows)
    f = Figure("A training step of two models on four GPUs", "Modelled, on a logarithmic scale. " + " ".join(
        f"{gpu}: small model {small:g} ms, large model {large:g} ms." for gpu, small, large in rows), bottom + 40)
    for power in range(-2, 3):
        f.line((x(10 ** power), 34), (x(10 ** power), bottom), colour=HOST, thick=1)
        f.text(x(10 ** power), 18, f"{10 ** power:g}", 18)
    f.text(1110, 18, "modelled ms", 18, "end")
    for i, (gpu, *times) in enumerate(rows):
        for j, (ms, colour) in enumerate(zip(times, (COMMUNICATE, COMPUTE))):
            y = 44 + PITCH * i + (HEIGHT + 2) * j
            f.area(LEFT, y, x(ms) - LEFT, HEIGHT, colour.line)
            f.area(x(ms) + 4, y, 80, HEIGHT, "#FFFFFF")
            f.text(x(ms) + 10, y + HEIGHT / 2, f"{ms:.3f}", 20, "start", bold=True)
        f.text(LEFT - 16, 44 + PITCH * i + HEIGHT, gpu, 22, "end", bold=True)
    for at, name, colour in ((LEFT, "512, 512 with batch 128", COMMUNICATE), (LEFT + 330, "4096, 4096, 4096 with batch 4,096", COMPUTE)):
        f.area(at, bottom + 14, 18, 18, colour.line)
        f.text(at + 28, bottom + 23, name, 18, "start")
    return f
