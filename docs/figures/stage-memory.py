r"""Memory of the first of four stages with each schedule of step 8. These commands wrote stage-memory.csv:

for pipeline in gpipe 1f1b; do
    CPU_DEVICES=4 CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 03_multigpu_launcher/launch --nproc-per-node 4 \
        08_pipeline/train --pipeline $pipeline --model gpt --layers 8 --width 2048 --heads 16 --context 512 \
        --data text --batch 64 --micro-batches 16 --optimizer adam --max-steps 2 2>/dev/null | awk -v run=$pipeline '
        $1 == "costs" { flying = $9 }
        /^  (parameters|gradients|optimizer|activations) / { sizes = sizes "," $2 }
        $1 == "sent" { sent = $4 }
        END { print run "," flying sizes "," sent }'
done >stage-memory.csv
"""
import csv
import os

from drawing import COMMUNICATE, COMPUTE, COPY, UPDATE, Figure

PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("optimizer", UPDATE), ("activations in flight", COPY))
LEFT, TOP, PITCH, HEIGHT, SCALE = 150, 66, 82, 56, 44


def draw():
    with open(f"{os.path.dirname(os.path.abspath(__file__))}/stage-memory.csv", encoding="ascii", newline="") as file:
        rows = [(name, int(flying), [int(size) / 1e9 for size in sizes[:4]]) for name, flying, *sizes in csv.reader(file)]
    f = Figure("Memory of stage 0 with each schedule", "Four stages, 16 micro-batches, a transformer of 8 blocks of width 2048, Adam: "
               + ", ".join(f"{name} {sum(sizes):.1f} GB with {flying} micro-batches in flight" for name, flying, sizes in rows) + ".",
               TOP + PITCH * len(rows))
    f.legend(LEFT, 24, PARTS)
    for i, (name, flying, sizes) in enumerate(rows):
        y = TOP + i * PITCH
        f.bar(LEFT, y, HEIGHT, SCALE, [(size, colour, f"{size:.1f}") for size, (_, colour) in zip(sizes, PARTS)],
              f"{sum(sizes):.1f} GB, {flying} in flight", name=name)
    return f
