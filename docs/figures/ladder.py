"""The time of a training step on each rung of the ladder (01_single_gpu/ladder.c), from the table in docs/ladder.md. make ladder
calls this file with a table and the name of a figure."""
import os
import re
import sys

from drawing import COMPUTE, HOST, UPDATE, Figure

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../ladder.md")
ROW = re.compile(r"^(\d) (.{20}) (fp32|tf32|bf16) +([\d.]+) +\d+ +\S+ +(\S+) +([\d.]+) \((\w+)\)", re.M)


def draw(table=TABLE):
    with open(table, encoding="utf-8") as file:
        text = file.read()
    rows = [(int(rung), name.strip(), precision, float(ms), float(launches), float(ratio))
            for rung, name, precision, ms, launches, ratio, _ in ROW.findall(text)]
    modelled = "modelled" in text
    longest = max(ms for _, _, _, ms, _, _ in rows)
    f = Figure("The time of a training step on each rung" + (", modelled H100" if modelled else ""),
               "Milliseconds for a step, and how many times the floor: " +
               "; ".join(f"rung {rung}, {name}, {ms:.3f} and {ratio:g}" for rung, name, _, ms, _, ratio in rows) + ".",
               70 + 56 * len(rows))
    left, scale = 330, 560 / longest
    for i, (rung, name, precision, ms, launches, ratio) in enumerate(rows):
        y = 20 + 56 * i
        f.text(20, y + 20, f"{rung}  {name}", 20, "start", bold=True)
        f.area(left, y, ms * scale, 40, COMPUTE.line if rung < 4 else UPDATE.line)
        f.area(left, y, ms / ratio * scale, 40, HOST.line)
        f.text(left + ms * scale + 12, y + 20, f"{ms:.3f} ms, {ratio:g} x floor", 20, "start")
    bottom = 20 + 56 * len(rows)
    for x, name, colour in ((330, "the floor", HOST), (480, "calls for each kernel", COMPUTE), (730, "a graph", UPDATE)):
        f.area(x, bottom + 12, 16, 16, colour.line)
        f.text(x + 24, bottom + 20, name, 18, "start")
    return f


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(draw(sys.argv[1]).svg())
