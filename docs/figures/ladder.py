"""The time of a training step on each rung of the ladder (01_single_gpu/ladder/ladder.c), from the table in
docs/single-gpu-first.md, with the measured times of an H200 below it. make ladder calls this file with a table and the name of a figure."""
import re
import sys

from drawing import COMPUTE, FOURTH, HOST, UPDATE, Figure, read

TABLE = "docs/single-gpu-first.md"
ROW = re.compile(r"^(\d) (.{20}) (fp32|tf32|bf16) +([\d.]+) +\d+ +\S+ +(\S+) +([\d.]+) \((\w+)\)", re.M)
MEASURED = re.compile(r"^\| (\d) [^|]*\| ([\d.]+) \|", re.M)


def draw(table=TABLE):
    text = read(table)
    rows = [(int(rung), name.strip(), precision, float(ms), float(launches), float(ratio))
            for rung, name, precision, ms, launches, ratio, _ in ROW.findall(text)]
    measured = {int(rung): float(ms) for rung, ms in MEASURED.findall(text)}
    modelled = "modelled" in text
    longest = max(ms for _, _, _, ms, _, _ in rows)
    longest = max(longest, *measured.values()) if measured else longest
    f = Figure("The time of a training step on each rung" + (", modelled H100" if modelled else "") +
               (" and measured H200" if measured else ""),
               "Milliseconds for a step, and how many times the floor: " +
               "; ".join(f"rung {rung}, {name}, {ms:.3f} and {ratio:g}" +
                         (f", measured {measured[rung]:.3f}" if rung in measured else "") for rung, name, _, ms, _, ratio in rows) + ".",
               70 + 56 * len(rows))
    left, scale = 330, 560 / longest
    for i, (rung, name, precision, ms, launches, ratio) in enumerate(rows):
        y, height = 20 + 56 * i, 22 if rung in measured else 40
        f.text(20, y + 20, f"{rung}  {name}", 20, "start", bold=True)
        f.area(left, y, ms * scale, height, COMPUTE.line if rung < 4 else UPDATE.line)
        f.area(left, y, ms / ratio * scale, height, HOST.line)
        f.text(left + ms * scale + 12, y + height / 2, f"{ms:.3f} ms, {ratio:g} x floor", 18 if rung in measured else 20, "start")
        if rung in measured:
            f.area(left, y + 24, measured[rung] * scale, 18, FOURTH.line)
            f.text(left + measured[rung] * scale + 12, y + 33, f"{measured[rung]:.3f} ms", 18, "start")
    bottom = 20 + 56 * len(rows)
    f.legend(left, bottom + 22, [("the floor", HOST), ("calls for each kernel", COMPUTE), ("a graph", UPDATE)]
             + [("measured, H200", FOURTH)] * bool(measured))
    return f


if __name__ == "__main__":
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        out.write(draw(sys.argv[1]).svg())
