"""Training step 2 of four ranks on modelled H100, one of which is slow. The rows of straggler.csv are rank, stream, kind, begin and end
in microseconds. They come from traces: the commands below the figure in docs/slides/3-many-nodes.md write them, and then

PYTHONPATH=tools:tools/author python3 -B docs/figures/straggler.py trace.json >docs/figures/straggler.csv
"""
import csv
import os
import sys

from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Colour, Figure
from trace import arrivals, step_windows
from trace_file import read_run
from trace_svg import kind_of

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".csv"
LEFT, RIGHT, TOP, ROW = 100, 1100, 44, 60
KINDS = {"forward": COPY, "backward": COMPUTE, "collective": COMMUNICATE, "late": Colour("#F3D9A4", "#F3D9A4"), "update": UPDATE}


def rows_of(path):
    """The spans of the second step, those of a kind that touch as one. An all-reduce of a rank that came early is in two parts."""
    run = read_run([path])
    last = {key: max(times.values()) for key, times in arrivals(run).items()}
    start = min(step_windows(rank)[1][0] for rank in run.ranks)
    for rank in run.ranks:
        begin, end = step_windows(rank)[1]
        found = []
        for key, span in rank.collectives().items():
            if begin <= span.begin < end:
                found += [(1, "late", span.begin, last[key])] * (last[key] > span.begin + 1) + [(1, "collective", last[key], span.end)]
        for kind in ("forward", "backward", "update"):
            spans = [span for span in rank.device_spans() if kind_of(span) == kind and begin <= span.begin < end]
            found.append((0, kind, min(span.begin for span in spans), max(span.end for span in spans)))
        yield from ([rank.number, row, kind, f"{a - start:.3f}", f"{b - start:.3f}"] for row, kind, a, b in sorted(found))


def draw():
    with open(TABLE, encoding="ascii") as file:
        rows = [(int(rank), int(row), kind, float(begin), float(end)) for rank, row, kind, begin, end in csv.reader(file)]
    scale = (RIGHT - LEFT) / max(row[-1] for row in rows)
    waits = sum(end - begin for rank, _, kind, begin, end in rows if kind == "late" and rank == 0)
    f = Figure("A training step of four ranks with a straggler", "Modelled H100. Ranks 0, 1 and 2 begin their sums early and wait for rank 3, "
               f"which computes one and a half times as long: {waits / 1000:.2f} ms in this step. Then all ranks sum at the same time.",
               TOP + 4 * ROW + 50)
    f.legend(LEFT, 20, [("forward", COPY), ("backward", COMPUTE), ("sum", COMMUNICATE), ("waits for rank 3", KINDS["late"]), ("update", UPDATE)])
    for rank in range(4):
        f.text(10, TOP + ROW * rank + 25, f"rank {rank}", 20, "start", bold=True)
        f.area(LEFT, TOP + ROW * rank, RIGHT - LEFT, 52, HOST.pale)
    for rank, row, kind, begin, end in rows:
        f.area(LEFT + begin * scale, TOP + ROW * rank + 26 * row, (end - begin) * scale, 26, KINDS[kind].line)
    y = TOP + 4 * ROW
    f.line((LEFT, y), (RIGHT, y), colour=HOST)
    for ms in (0, 0.5, 1, 1.5, 2):
        f.text(LEFT + 1000 * ms * scale, y + 20, f"{ms:g} ms" if ms else "0", 18)
    f.text(RIGHT, y + 20, "modelled", 18, "end")
    return f


if __name__ == "__main__":
    csv.writer(sys.stdout, lineterminator="\n").writerows(rows_of(sys.argv[1]))
