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

from drawing import COMMUNICATE, COMPUTE, COPY, UPDATE, bars, read
from strategies import of_parts

PARTS = (("parameters", COMPUTE), ("gradients", COMMUNICATE), ("optimizer", UPDATE), ("activations in flight", COPY))


def draw():
    rows = [of_parts(name, [int(size) / 1e9 for size in sizes[:4]], PARTS, f", {flying} in flight")
            for name, flying, *sizes in csv.reader(read("docs/figures/stage-memory.csv").splitlines())]
    return bars("Memory of stage 0 with each schedule", "Four stages, 16 micro-batches, a transformer of 8 blocks of width 2048, Adam, in GB.",
                rows, 150, 550, PARTS, 66, 82, 56)
