"""A training step of two models on four modelled GPUs, on a logarithmic scale. gpus-models.txt has a row for each GPU, with the
milliseconds of the small and of the large model; its commands stand below the figure in docs/slides/1-one-gpu.md."""
from drawing import COMMUNICATE, COMPUTE, HOST, Figure, log_scale

LEFT, WIDTH, PITCH, HEIGHT = 96, 860, 60, 23  # of the bars


def draw(text):
    rows = [(line.split()[-1].upper(), float(line.split()[0]), float(line.split()[1])) for line in text.splitlines()]
    x = log_scale(0.01, 100, LEFT, LEFT + WIDTH)  # ms
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
    f.legend(LEFT, bottom + 23, (("512, 512 with batch 128", COMMUNICATE), ("4096, 4096, 4096 with batch 4,096", COMPUTE)))
    return f
