#!/usr/bin/env bats
# Tests of the figures in docs/figures: they are what their sources draw, each text can be read, and their numbers are those
# of the programs.
load ../helpers
needs=(python3)

# These pictures come from tools/trace.py: docs/seeing.md says how.
others='overlap|prefetch'

@test "each figure is what its source draws, and each source has a figure or a slide" {
    mkdir again
    "$root/tools/author/drawing.py" --out again "$root"/docs/figures/*.py
    for figure in again/*.svg; do
        figure=$(basename "$figure" .svg)
        if [ -e "$root/docs/figures/$figure.svg" ]; then
            cmp "again/$figure.svg" "$root/docs/figures/$figure.svg"
        else
            grep -q "(../figures/$figure.py)" "$root"/docs/slides/*.md || { echo "no text shows $figure" && return 1; }
        fi
    done
    for figure in "$root"/docs/figures/*.svg; do
        [[ ${figure##*/} =~ ^($others)\.svg$ ]] || [ -e "again/${figure##*/}" ] ||
            { echo "$figure has no source" && return 1; }
    done
}

@test "the memory of a rank in strategies.svg is what step 7 computes" {
    need_train 03_multigpu_launcher/launch 07_large_models/train
    build=${TRAIN%/*/*}
    tiny_data data
    # The model has two layers, so two units, which are gathered at the same time.
    for strategy in none grad full; do
        found=$(CPU_DEVICES=4 "$build/03_multigpu_launcher/launch" --nproc-per-node 4 "$build/07_large_models/train" \
            --strategy $strategy --data data --hidden 8 --optimizer adam --batch 4 --max-steps 1 --log-every 1 2>/dev/null |
            awk '$1 ~ /^(parameters|gradients|optimizer|gathered)$/ && $2 ~ /^[0-9]+$/ { sum += $3 } END { print sum }')
        wanted=$(cd "$root/tools" && PYTHONPATH=author python3 -B -c "
import runpy, sys
from formulas import mlp_layers
figure = runpy.run_path('../docs/figures/strategies.py')
figure['stored'].__globals__.update(LAYERS=mlp_layers(8, 8, 10))
print(figure['stored'](sys.argv[1], 4))" $strategy)
        echo "$strategy: wanted $wanted, found $found"
        [ "$found" = "$wanted" ]
    done
}

@test "memory.svg shows the sizes that step 1 prints" {
    need_train
    "$TRAIN" --data synthetic --max-steps 1 >out
    grep -q '^memory ' out
    while read -r name size; do
        [ "$name" != optimizer ] || name=momentum
        grep -q "$name $size" "$root/docs/figures/memory.svg" || { echo "memory.svg does not say $name $size" && return 1; }
    done < <(sed -n 's/^memory *//p' out | sed 's/, /\n/g')
}

@test "pipeline.svg has the order in which the stages of step 8 compute" {
    PYTHONPATH=$root/tools:$root/tools/author:$root/docs/figures python3 -B - "$root/docs/figures/pipeline-timeline.py" <<'END'
import json, runpy, sys
from drawing import read
from schedules import run
data = json.loads(read("docs/site/timelines/08_pipeline.json"))
recorded = next(r for r in data["runs"] if r["setting"] == ["4", "8", "1f1b", "8, equal stages"])
stages = list(runpy.run_path(sys.argv[1])["works"](recorded, data["names"]))
drawn = [[(str(part), kind == "B") for kind, part, *_ in row] for row in run(1, False)]
assert [[(part, solid) for _, _, part, _, solid in row if part] for row in stages] == drawn, drawn
assert sum(map(len, drawn)) == 64
END
}

@test "the schedules drawn on paper are idle, and keep activations, as their publications say" {
    PYTHONPATH=$root/tools:$root/tools/author:$root/docs/figures python3 -B - <<'END'
from dualpipe import both_ends, kept
from schedules import PARTS, STAGES, run
p, m, F, B, W = STAGES, PARTS, 1, 2, 1  # B: both halves of backward
for rows, idle, activations in (
        (run(1, False), (p - 1) * (F + B), None),  # 1F1B
        (run(2, False), (p - 1) * (F + B) / 2, None),  # two chunks of layers
        (run(1, True), (p - 1) * (F + B - 2 * W), p),  # ZB-H1
        ([[(*work, work[-1] + 1) for work in row] for row in both_ends()], (p / 2 - 1) * ((F + B) + B - 3 * W), p + 1)):  # DualPipe
    end = max(row[-1][-1] for row in rows)
    assert abs(end - m * (F + B) - idle) < 1e-9, (end, idle)
    assert activations in (None, max(map(kept, rows))), activations
END
}

@test "each text of a figure has letters of 13 pixels and more on GitHub, where a figure is 838 wide" {
    python3 - "$root"/docs/figures/*.svg <<'END'
import re, sys
for path in sys.argv[1:]:
    svg = open(path, encoding="utf-8").read()
    width = float(re.search(r'viewBox="0 0 ([\d.]+)', svg)[1])
    least = min(float(size) for size in re.findall(r'<text [^>]*font-size="([\d.]+)"', svg))
    assert least * 838 / width >= 13, (path, least, width)
END
}

@test "each text on a colour of the figures has the contrast of WCAG 2, level AA" {
    PYTHONPATH=$root/tools:$root/tools/author python3 -B - <<'END'
import json
import drawing

def light(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return sum(w * (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4) for w, v in zip((0.2126, 0.7152, 0.0722), parts))

pairs = [pair for c in vars(drawing).values() if isinstance(c, drawing.Colour) for pair in ((c.line, c.letters), (c.pale, drawing.INK))]
pairs += [kind[:2] for kind in json.loads(drawing.read("docs/figures/fsdp.json"))["kinds"].values()]
for pair in pairs:
    dark, pale = sorted(map(light, pair))
    assert (pale + 0.05) / (dark + 0.05) >= 4.5, pair
END
}

@test "efficiency.svg shows what a rehearsal computes" {
    need_train 03_multigpu_launcher/launch 07_large_models/train
    unset CPU_DEVICE_MODEL
    for scaling in weak strong; do
        options=(--gpus "1,2,8")
        [ $scaling = weak ] || options+=(--strong --batch 4096)
        python3 -B "$root/tools/rehearse.py" --build "${TRAIN%/*/*}" --out out --hidden 8192,8192 --strategies none,full \
            "${options[@]}"
        diff out/rehearse.csv <(grep -E '^strategy|^[a-z]+,[128],' "$root/docs/figures/efficiency-$scaling.csv")
    done
}

@test "the bars of sessions 4 and 5 show what steps 7 to 9 model" {
    need_train 03_multigpu_launcher/launch 07_large_models/train 08_pipeline/train 09_tensor/train
    ln -s "$root/docs" "${TRAIN%/*/*}"/{03_multigpu_launcher,07_large_models,08_pipeline,09_tensor} .
    for figure in hiding:large mixtures:mixtures stage-memory:stage-memory; do
        sed -n '/These commands wrote/,/^"""$/{ /^"""$/!p; }' "docs/figures/${figure%:*}.py" | sed 1,2d >commands
        bash commands
        diff "${figure#*:}.csv" "$root/docs/figures/${figure#*:}.csv"
    done
}

@test "clipping.svg shows the losses that step 7 computes" {
    need_train 07_large_models/train
    [ -e "$root/data/mnist/train-images-idx3-ubyte.gz" ] || skip "no MNIST here: make data"
    for clip in 0.1 0; do # without clipping, the run ends with an error
        "${TRAIN%/*/*}/07_large_models/train" --data "$root/data/mnist" --lr 1 --clip $clip --max-steps 20 --log-every 1 \
            --csv clip$clip.csv >out 2>&1 || [ $clip = 0 ] || { cat out && return 1; }
    done
    python3 -B - "$root/docs/figures/clipping.csv" <<'END'
import csv, sys

def losses(path, column):
    with open(path, encoding="ascii", newline="") as file:
        return [float(row[column]) for row in csv.DictReader(file) if row[column]]

clipped, unclipped = losses("clip0.1.csv", "loss"), losses("clip0.csv", "loss")
# Other processors round differently, and without clipping, the difference soon grows with the loss.
for ours, name, steps in (clipped, "clipped", 10), (unclipped, "unclipped", 4):
    for a, b in zip(ours[:steps], losses(sys.argv[1], name)):
        assert abs(a / b - 1) < 0.1, (name, a, b)
assert len(clipped) == 20 and clipped[-1] < 1, clipped
assert len(unclipped) < 20 and unclipped[-1] > 1000, unclipped
END
}
