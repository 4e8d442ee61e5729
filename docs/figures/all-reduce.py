"""The arrays of the ranks before and after an all-reduce. all-reduce.txt holds what the commands below the figure in
docs/slides/2-data-parallel.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, COPY, Figure


def arrays(title, call, ranks):
    """ranks: of each rank its number, and its array before and after the call."""
    f = Figure(title, "Before and after: " + "; ".join(f"rank {rank}: {before}, {after}" for rank, before, after in ranks) + ".", 290)
    pitch = 1000 / len(ranks)
    f.box(110, 116, 1000, 60, call, COMMUNICATE, solid=True, size=20)
    f.text(10, 58, "before", 20, "start", bold=True)
    f.text(10, 240, "after", 20, "start", bold=True)
    for i, (rank, before, after) in enumerate(ranks):
        x = 110 + pitch * (i + 0.5)
        f.text(x, 14, f"rank {rank}", 20, bold=True)
        f.box(x - 90, 34, 180, 48, before, COPY, size=22)
        f.box(x - 90, 214, 180, 48, after, COMPUTE, size=22)
        f.arrow((x, 86), (x, 112))
        f.arrow((x, 180), (x, 210))
    return f


def draw(text):
    ranks = re.findall(r"rank (\d+): before (\d+), after (\d+)", text)
    return arrays("An all-reduce", "ncclAllReduce: adds the arrays, element by element",
                  [(rank, "  ".join([before] * 3) + " ...", "  ".join([after] * 3) + " ...") for rank, before, after in ranks])


pictures = {"replicas": lambda: arrays("An all-reduce of checksums", "ncclAllReduce with ncclMax: takes the largest of each element", [
    (rank, f"{checksum}   -{checksum}", "9   -7") for rank, checksum in enumerate((9, 9, 7, 9))])}
