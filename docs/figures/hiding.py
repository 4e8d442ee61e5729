r"""What a training step on eight modelled H100 consists of, with and without prefetch and other options. These commands wrote large.csv:

. docs/slides/large.sh
while read -r run options; do
    modelled 8 07_large_models/train --profile $options | awk -v run=$run '
        $2 == "ms" { times = $4 "," $6 "," $7 "," $8 "," $11 "," $12 }
        $1 == "activations" { stored = $2 }
        $1 == "sent" { sent = $4 }
        END { print run "," times "," stored "," sent }'
done >large.csv <<END
serial --prefetch 0
fp32 --prefetch 1
bf16 --precision bf16
parts --precision bf16 --accumulate 4
units --precision bf16 --unit-bytes 8000000000
recomputed --precision bf16 --unit-bytes 8000000000 --recompute 1
END
"""
import csv

from drawing import COMPUTE, COPY, HOST, Figure, read
from phases import step_bars

COLUMNS = ("run", "forward", "backward", "update", "comm", "step", "hidden", "activations", "sent")
LEFT, ABOUT = 220, "A training step of 16,384 images on 8 modelled H100."


def runs(name):
    """The numbers of a file beside this one: times in ms, and bytes of a rank."""
    rows = csv.DictReader(read(f"docs/figures/{name}.csv").splitlines(), COLUMNS)
    return {row.pop("run"): {name: float(value) for name, value in row.items()} for row in rows}


def draw_times(title, names, scale=1.5, file="large", about=ABOUT):
    """names: (run, text)."""
    rows = [(text, runs(file)[name]) for name, text in names]
    f = step_bars(title, about, rows, LEFT, scale * max(row["step"] for _, row in rows), 1)
    for i, (_, row) in enumerate(rows):
        if row["hidden"] > 10:  # a few milliseconds are no point of a picture
            f.text(LEFT + row["step"] * scale + 130, 56 + i * 70 + 27, f"{row['hidden']:.1f} ms hidden", 20, "start")
    return f


def draw_bytes(title, names, with_time):
    """Activations, and in a second column the bytes sent, or the time of a step. names: (run, text)."""
    rows = [(text, runs("large")[name]) for name, text in names]
    f = Figure(title, "On each of 8 ranks. " + " ".join(
        f"{text}: activations {row['activations'] / 1e9:.1f} GB, sent {row['sent'] / 1e9:.1f} GB, {row['step']:.1f} ms."
        for text, row in rows), 70 + 66 * len(rows))
    right, key, unit, factor = (620, "step", "ms", 1) if with_time else (620, "sent", "GB", 1e9)
    most = max(row[key] for _, row in rows)
    f.text(LEFT, 30, "activations of a rank", 20, "start", bold=True)
    f.text(right, 30, "a training step, modelled" if with_time else "a rank sends in a step", 20, "start", bold=True)
    for i, (text, row) in enumerate(rows):
        y = 60 + i * 66
        f.text(LEFT - 14, y + 24, text, 20, "end")
        f.bar(LEFT, y, 48, 80, [(row["activations"] / 1e9, COPY)], f"{row['activations'] / 1e9:.1f} GB")
        f.bar(right, y, 48, 330 / most, [(row[key], COMPUTE if with_time else HOST)], f"{row[key] / factor:.1f} {unit}")
    return f


def draw():
    return draw_times("A training step with and without prefetch", (("serial", "--prefetch 0"), ("fp32", "--prefetch 1")))


pictures = {
    "bf16": lambda: draw_times("A training step in fp32 and in bfloat16", (("fp32", "--precision fp32"), ("bf16", "--precision bf16")), 2.5),
    "accumulation": lambda: draw_bytes("Memory and messages with accumulation", (("bf16", "--accumulate 1"), ("parts", "--accumulate 4")), False),
    "recomputation": lambda: draw_bytes("Memory and time with recomputation", (("units", "--recompute 0"), ("recomputed", "--recompute 1")), True)}
