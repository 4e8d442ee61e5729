"""The arrays of the ranks before and after an all-reduce. all-reduce.txt holds what the commands below the figure in
docs/slides/2-data-parallel.md print."""
import os
import re

from drawing import COMMUNICATE, COMPUTE, COPY, Figure

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"


def draw(table=TABLE):
    with open(table, encoding="utf-8") as file:
        ranks = re.findall(r"rank (\d+): before (\d+), after (\d+)", file.read())
    f = Figure("An all-reduce", "Before and after: " + "; ".join(f"rank {rank}: {before}, {after}" for rank, before, after in ranks) + ".", 290)
    pitch = 1000 / len(ranks)
    f.box(110, 116, 1000, 60, "ncclAllReduce: adds the arrays, element by element", COMMUNICATE, solid=True, size=20)
    f.text(10, 58, "before", 20, "start", bold=True)
    f.text(10, 240, "after", 20, "start", bold=True)
    for i, (rank, before, after) in enumerate(ranks):
        x = 110 + pitch * (i + 0.5)
        f.text(x, 14, f"rank {rank}", 20, bold=True)
        f.box(x - 90, 34, 180, 48, f"{before}  {before}  {before} ...", COPY, size=22)
        f.box(x - 90, 214, 180, 48, f"{after}  {after}  {after} ...", COMPUTE, size=22)
        f.arrow((x, 86), (x, 112))
        f.arrow((x, 180), (x, 210))
    return f
