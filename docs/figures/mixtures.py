r"""The time of a training step with three layouts of eight modelled H100 in two nodes. These commands wrote mixtures.csv:

model="--model gpt --layers 8 --width 2048 --heads 16 --context 512 --data text"
for layout in "--tensor 8" "--tensor 4 --stages 2" "--tensor 1 --stages 8"; do
    CPU_DEVICES=8 CPU_DEVICE_TOPOLOGY=2x4 CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 \
        03_multigpu_launcher/launch --nproc-per-node 8 09_tensor/train $layout $model \
        --batch 64 --micro-batches 8 --max-steps 2 --profile 2>/dev/null | awk -v run="$layout" '
        $2 == "ms" { times = $4 "," $6 "," $7 "," $8 "," $11 "," $12 }
        $1 == "activations" { stored = $2 }
        $1 == "sent" || $1 == "parts" { sent += $4 }
        END { printf "%s,%s,%s,%.0f\n", run, times, stored, sent }'
done >mixtures.csv
"""
from hiding import draw_times

ROWS = (("--tensor 8", "--tensor 8"), ("--tensor 4 --stages 2", "--tensor 4\n--stages 2"), ("--tensor 1 --stages 8", "--stages 8"))


def draw():
    return draw_times("A training step with three layouts", ROWS, 1.8, "mixtures",
                      "A transformer of 8 blocks of width 2048 on 8 modelled H100, 4 per node.")
