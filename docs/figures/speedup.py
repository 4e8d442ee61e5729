"""How much faster a model trains on more modelled H100. speedup.txt and the other tables have the last line of each run; their
commands stand below the figures in docs/slides/1-one-gpu.md and 2-data-parallel.md."""
import re

from drawing import COMPUTE, HOST, Figure

LEFT, WIDTH, PITCH, HEIGHT = 200, 600, 52, 40  # of the bars


def rates_of(text):
    """Images per second, in the order of the runs."""
    return [int(rate) for rate in re.findall(r"(\d+) images/s", text)]


def bars(title, groups):
    """groups: for each model its name, and the images per second for each number of GPUs. The first number is the unit."""
    named = len(groups) > 1
    f = Figure(title, "Modelled H100. " + " ".join(
        f"{name}: " + ", ".join(f"{n} GPU{'s' * (n > 1)} {rate:,} images/s" for n, rate in rates.items()) + "."
        for name, rates in groups), sum(PITCH * len(rates) + 40 * named for _, rates in groups) + 44)
    y, most = 8, max(n for _, rates in groups for n in rates)
    for name, rates in groups:
        if named:
            f.text(20, y + 18, name, 22, "start", bold=True)
            y += 40
        first = rates[1]
        for n, rate in rates.items():
            speedup = rate / first
            f.text(LEFT - 16, y + HEIGHT / 2, f"{n} GPU{'s' * (n > 1)}", 22, "end")
            f.area(LEFT, y, WIDTH * n / most, HEIGHT, HOST.pale, HOST.line, dashed=True)
            f.area(LEFT, y, WIDTH * speedup / most, HEIGHT, COMPUTE.line)
            f.text(LEFT + WIDTH + 20, y + HEIGHT / 2, f"{speedup:.2f} x: {100 * speedup / n:.0f} %", 22, "start", bold=True)
            y += PITCH
    f.legend(LEFT, y + 18, (("speed-up, modelled H100", COMPUTE), ("if n GPUs were n times as fast", HOST, False)))
    f.text(LEFT + WIDTH + 20, y + 18, "speed-up: efficiency", 18, "start")
    return f


def of_model(title, name):
    return lambda text: bars(title, [(name, dict(zip((1, 2, 4, 8), rates_of(text))))])


def second(text):
    small, small2, large, large2 = rates_of(text)
    return bars("Speed-up with a second GPU", [("small model: hidden layers 512, 512", {1: small, 2: small2}),
                                               ("large model: hidden layers 4096, 4096, 4096", {1: large, 2: large2})])


draw = of_model("Speed-up with one batch for all GPUs", "4096,4096,4096, batch 1,024")
pictures = {"eight": of_model("Speed-up with up to eight GPUs", "4096,4096, batch 4,096"), "second": second,
            "weak": of_model("Speed-up with the same work for each GPU", "4096,4096,4096, 1,024 images per GPU")}
