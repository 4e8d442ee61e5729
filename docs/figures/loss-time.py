"""The loss of the test images against the modelled time, after each epoch on 1, 2 and 8 GPUs. loss-time.txt holds what the commands
below the figure in docs/slides/2-data-parallel.md print."""
import math
import re

from drawing import COMMUNICATE, COMPUTE, UPDATE, Axes, Figure

STYLES = ((COMPUTE, "circle"), (COMMUNICATE, "square"), (UPDATE, "triangle"))


def draw(text):
    runs = {}
    for gpus, loss, seconds in re.findall(r"^(\d+) GPUs: loss ([\d.]+) .* modelled ([\d.]+) s", text, re.M):
        epochs = runs.setdefault(gpus, [])
        epochs.append((1000 * float(seconds) * (len(epochs) + 1), float(loss)))
    f = Figure("The loss against time on 1, 2 and 8 GPUs", "Modelled milliseconds, and the loss of the test images after each epoch. " + " ".join(
        f"{gpus} GPUs: " + ", ".join(f"{ms:.0f} ms {loss:.4f}" for ms, loss in epochs) + "." for gpus, epochs in runs.items()), 350)
    last, highest = map(max, zip(*(point for epochs in runs.values() for point in epochs)))
    axes = Axes(f, 84, 50, 1000, 230, (), 0.05 * math.ceil(highest / 0.05), 0.05, ("milliseconds, modelled H100", "loss of the test images"), lambda ms: 84 + 960 * ms / last)
    for ms in range(0, round(last), 50):
        f.text(axes.x(ms), 300, str(ms), 18)
    for (gpus, epochs), style in zip(runs.items(), STYLES):
        axes.curve(epochs, *style)
    f.legend(480, 70, [(f"{gpus} GPU{'s' * (gpus != '1')}", colour) for gpus, (colour, _) in zip(runs, STYLES)])
    return f
