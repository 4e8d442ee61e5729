"""The second training step of step 8 with each schedule, on four modelled H100. The rows of pipeline-timeline.csv are what the
stages compute: schedule, stage, F or B, micro-batch, begin and end in microseconds. They come from traces:

for pipeline in gpipe 1f1b; do
    CPU_DEVICES=4 CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 03_multigpu_launcher/launch --nproc-per-node 4 \\
        08_pipeline/train --pipeline $pipeline --model gpt --layers 8 --width 2048 --heads 16 --context 512 --data text \\
        --batch 64 --micro-batches 8 --max-steps 2 --trace $pipeline.json
done
PYTHONPATH=tools/author python3 -B docs/figures/pipeline-timeline.py {gpipe,1f1b}.json >docs/figures/pipeline-timeline.csv
"""
import csv
import os
import sys

from drawing import COMPUTE, COPY, HOST, UPDATE, Figure
from trace import step_windows
from trace_file import read_run
from trace_svg import kind_of

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".csv"
PARTS = 8  # micro-batches
LEFT, RIGHT, TOP, ROW, BLOCK = 86, 1110, 40, 28, 158  # pixels


def spans_of_layers(rank, window):
    """The spans of the forward and of the backward pass of each layer of a stage, in their order."""
    found = {}
    for span in rank.device_spans():
        words = span.scope().split()
        if words and words[0] in ("forward", "backward") and window[0] <= span.begin < window[1]:
            found.setdefault((words[0][0].upper(), int(words[1])), []).append(span)
    return found


def ends_of(spans):
    return min(span.begin for span in spans), max(span.end for span in spans)


def rows_of(path):
    """The rows of a trace. The micro-batches pass through a layer one after the other, so those of its spans that belong to a
    micro-batch are one part of PARTS equal ones."""
    run = read_run([path])
    windows = [step_windows(rank)[1] for rank in run.ranks]
    start = windows[0][0]  # stage 0 begins first
    for rank, window in zip(run.ranks, windows):
        works = {}
        for (kind, _), spans in sorted(spans_of_layers(rank, window).items()):
            size = len(spans) // PARTS
            for part in range(PARTS):
                works.setdefault((kind, part), []).extend(spans[part * size:(part + 1) * size])
        for (kind, part), spans in sorted(works.items()):
            yield [rank.number, kind, part, *(f"{time - start:.3f}" for time in ends_of(spans))]
        updates = [span for span in rank.device_spans() if kind_of(span) == "update" and window[0] <= span.begin < window[1]]
        yield [rank.number, "update", 0, *(f"{time - start:.3f}" for time in ends_of(updates))]


def read_table():
    """Returns the rows of each schedule."""
    schedules = {}
    with open(TABLE, encoding="ascii") as file:
        for name, stage, kind, part, begin, end in csv.reader(file):
            schedules.setdefault(name, []).append((int(stage), kind, int(part), float(begin), float(end)))
    return schedules


def idle_share(rows):
    """The share of the step in which the stages compute nothing."""
    busy = sum(end - begin for *_, begin, end in rows)
    whole = max(row[-1] for row in rows) * (1 + max(row[0] for row in rows))
    return 1 - busy / whole


def draw():
    schedules = read_table()
    times = {name: max(row[-1] for row in rows) for name, rows in schedules.items()}
    scale = (RIGHT - LEFT) / max(times.values())
    bottom = TOP + len(schedules) * BLOCK
    f = Figure("A training step of a pipeline with two schedules, modelled H100",
               "Four stages and eight micro-batches. " + " ".join(
                   f"With {name}, the step takes {times[name] / 1000:.1f} ms, and the stages are idle for {100 * idle_share(rows):.0f} % of "
                   "it." for name, rows in schedules.items()), bottom + 30)
    for i, (name, rows) in enumerate(schedules.items()):
        top = TOP + i * BLOCK
        f.text(10, top - 18, f"{name}: {times[name] / 1000:.1f} ms, idle {100 * idle_share(rows):.0f} %", 20, "start", bold=True)
        for stage in range(4):
            y = top + stage * ROW
            f.text(10, y + ROW / 2 - 2, f"stage {stage}", 18, "start")
            f.area(LEFT, y, times[name] * scale, ROW - 4, HOST.pale)
        for stage, kind, part, begin, end in rows:
            x, y, width = LEFT + begin * scale, top + stage * ROW, (end - begin) * scale
            if kind == "update":
                f.area(x, y, width, ROW - 4, UPDATE.line)
                continue
            colour = COPY if kind == "F" else COMPUTE
            f.area(x, y, width, ROW - 4, colour.line if kind == "B" else colour.pale, colour.line, thick=1)
            f.text(x + width / 2, y + ROW / 2 - 2, str(part), 18, colour=colour.letters if kind == "B" else "#222222")
    y = bottom - 18
    for x, colour, solid, text in ((90, COPY, False, "forward of a micro-batch"), (390, COMPUTE, True, "backward"), (570, UPDATE, True, "update")):
        f.area(x, y, 30, 24, colour.line if solid else colour.pale, colour.line, thick=1)
        f.text(x + 38, y + 12, text, 18, "start")
    return f


if __name__ == "__main__":
    out = csv.writer(sys.stdout, lineterminator="\n")
    for trace in sys.argv[1:]:
        for fields in rows_of(trace):
            out.writerow([os.path.basename(trace).partition(".")[0], *fields])
