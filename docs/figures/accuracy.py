"""The accuracy after an epoch with four batches. accuracy.txt holds what the commands below the figure in docs/slides/1-one-gpu.md
print."""
import re

from drawing import COMMUNICATE, COMPUTE, Figure


def bars(title, rows, width=640, pitch=70, left=330):
    """A figure of bars. rows: (name, value, colour, what stands behind the bar)."""
    most = max(value for _, value, _, _ in rows)
    f = Figure(title, " ".join(f"{name}: {text}." for name, _, _, text in rows), pitch * len(rows) + 4)
    for i, (name, value, colour, text) in enumerate(rows):
        f.bar(left, 6 + pitch * i, pitch - 16, width / most, [(value, colour)], text, name)
    return f


def draw(table):
    with open(table, encoding="utf-8") as file:
        rows = re.findall(r"^(--.*): accuracy ([\d.]+)%$", file.read(), re.M)
    return bars("The accuracy after an epoch with larger batches",
                [(options, float(percent), COMPUTE if float(percent) > 90 else COMMUNICATE, f"{percent} %") for options, percent in rows])
