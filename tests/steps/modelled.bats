#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of the modelled clock with the course's programs: the same times in every run, and lost devices.
load ../helpers
programs=(03_multigpu_launcher/launch {02_multigpu_fork,04_multinode,07_large_models,09_tensor}/train)
export CPU_DEVICE_MODEL=h100 CPU_DEVICES=4

# trains STEP RANKS OPTION...: runs a step from 3 on.
trains() {
    "$build/03_multigpu_launcher/launch" --nproc-per-node "$2" "$build/$1/train" --data synthetic --hidden 64,64 \
        --max-steps 6 "${@:3}" 2>/dev/null
}

sums() { # of the traces of a run
    cat trace.*.json | cksum
    rm trace.*.json
}

@test "with random delays, a modelled trace has the same bytes as without" {
    first=''
    for seed in '' 1; do
        export CPU_DEVICE_CHAOS=$seed
        [ -n "$seed" ] || unset CPU_DEVICE_CHAOS
        "$build/02_multigpu_fork/train" --data synthetic --hidden 64,64 --max-steps 6 --nproc 3 --batch 120 --trace trace.json
        two=$(sums)
        trains 07_large_models 4 --strategy hybrid --accumulate 2 --clip 1 --precision bf16 --batch 64 --trace trace.json
        seven=$(sums)
        trains 09_tensor 4 --tensor 2 --stages 2 --batch 64 --trace trace.json
        nine=$(sums)
        first=${first:-$two $seven $nine}
        [ "$two $seven $nine" = "$first" ] || { echo "seed $seed: another trace" && return 1; }
    done
}

@test "two readers hide the samples of the CNN behind its training steps, and the training thread alone does not" {
    local load steps=''
    for load in 'device' 'stream --workers 2' 'stream --workers 0' 'stream --workers 2'; do
        export CPU_DEVICE_CHAOS=$((CPU_DEVICE_CHAOS + 1)) # other delays change no modelled time
        # shellcheck disable=SC2086 # several words
        steps+="$(CPU_DEVICE_COMPUTE=0 "$TRAIN" --data synthetic --model cnn --batch 128 --max-steps 40 --profile \
            --load $load | awk '/modelled ms/ { print $NF }') "
    done
    echo "ms: $steps"
    awk '{ exit !($1 > 0 && $2 <= 1.03 * $1 && $3 >= 1.15 * $1 && $4 == $2) }' <<<"$steps"
}

@test "a device that is lost ends its rank, and the other ranks name it" {
    run env CPU_DEVICE_LOST=2:0.001 "$build/03_multigpu_launcher/launch" --max-restarts 0 --nproc-per-node 4 \
        "$build/04_multinode/train" --data synthetic --hidden 64,64 --epochs 1
    [ "$status" = 1 ]
    grep -E '^error \(.*rank 2\): .*(CPU_DEVICE_LOST)' <<<"$output"
}

# Its rates were chosen so that they fit these times.
@test "training steps take about as long as on an H200, and docs/measurements.md has the modelled times" {
    count=0
    while IFS='|' read -r _ name measured modelled _; do
        # shellcheck disable=SC2086 # without its spaces
        step=$(CPU_DEVICE_MODEL=h200 CPU_DEVICE_COMPUTE=0 "$TRAIN" --data blank:60000 --model $name --max-steps 40 \
            --profile | awk '/modelled ms/ { print $NF }')
        echo "$name: measured$measured, modelled $step"
        [ "$step" = "${modelled// /}" ]
        awk -v measured="$measured" -v step="$step" 'BEGIN { exit !(measured > 0.87 * step && measured < 1.15 * step) }'
        count=$((count + 1))
    done < <(grep -E '^\| (mlp|cnn)( \| [0-9]+\.[0-9]+){3} \|$' "$root/docs/measurements.md")
    [ $count = 2 ]
}
