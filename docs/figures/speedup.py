"""How much faster the large model of session 1 trains on 1, 2, 4 and 8 modelled H100, with one batch for all GPUs (strong
scaling). speedup.txt has the last line of each run; its commands stand below the figure in docs/slides/1-one-gpu.md."""
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


def draw(text):
    return bars("Speed-up with one batch for all GPUs", [("4096,4096,4096, batch 1,024", dict(zip((1, 2, 4, 8), rates_of(text))))])
