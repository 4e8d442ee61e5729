#!/bin/bash
# demo_fsdp.sh [OPTION...]: trains language models that do not fit on one device, with step 7. Each model is too large for
# the options before it: first for --strategy none, then without recomputation or bf16, then without accumulation. For each
# run, the script prints what a rank stores and sends, and the time. The CPU device models eight H100 of which MEMORY (24G) can be
# used, and leaves out the arithmetic; on a machine with GPUs, these are used.
set -eu
device=cpu
[[ $(readlink 07_large_models/train) != *build/gpu/* ]] || ! nvidia-smi -L >/dev/null 2>&1 || device=gpu
if [ "$device" = gpu ]; then
    ranks=$(nvidia-smi -L | grep -c "^GPU ") # the other lines describe parts of a GPU (MIG)
    memory=$(($(nvidia-smi --query-gpu=memory.free --format=csv,noheader,nounits | sort -n | head -n 1) << 20))
    if [ "$ranks" = 1 ]; then
        echo "error: the demo shards a model over several GPUs, but there is only one GPU here: try make DEVICE=cpu demo-fsdp" >&2
        exit 1
    fi
else
    ranks=8 memory=$(numfmt --from=iec "${MEMORY:-24G}")
    export CPU_DEVICES=$ranks CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 NCCL_SOCKET_IFNAME=lo
fi
. tools/begin.sh
log=$work/log

# train OPTION...: runs step 7 on all ranks, and writes its output to $log.
train() {
    03_multigpu_launcher/launch --nproc-per-node "$ranks" 07_large_models/train --model gpt --data text --optimizer adamw \
        --context 2048 --max-steps 2 --log-every 2 "${extra[@]}" "$@" >"$log" 2>&1
}

# limited OPTION...: the same with the limit of the device memory.
limited() {
    if [ "$device" = gpu ]; then train "$@"; else CPU_DEVICE_MEMORY=$((memory >> 20))M train "$@"; fi
}

# run NAME OPTION...: trains, and prints a line of the table. A run that does not fit is measured without the limit.
run() {
    local fits=yes
    if ! limited "${@:2}"; then
        grep -q 'out of device memory' "$log" || { cat "$log" >&2 && exit 1; }
        fits=no
        if [ "$device" = gpu ]; then echo "$1  $fits" && return; fi
        CPU_DEVICE_MEMORY=1000G train "${@:2}"
    fi
    awk -v name="$1" -v fits=$fits -v limit="$memory" '
        / [0-9]+ +[0-9]+  / && $1 ~ /^(parameters|gradients|optimizer|gathered|activations|peak)$/ {
            bytes[$1] = $2
            if ($2 != $3) differ = differ " " $1
        }
        $1 == "sent" { sent = $4; if ($4 != $5) differ = differ " sent" }
        / per epoch, / { for (i = 1; i < NF; i++) if ($i == "batch") batch = $(i + 1) }
        $1 == "FLOPs" { for (i = 1; i < NF; i++) if ($(i + 1) == "ms") ms = $i }
        END {
            split("parameters gradients optimizer gathered", kinds)
            split("P G O W A", letters)
            for (k = 1; k <= 5; k++)
                for (sum = k < 5 ? sum + bytes[kinds[k]] : bytes["peak"]; length(bar) < sum / 1e9; )
                    bar = bar letters[k]
            bar = sprintf("%-36s", bar)
            mark = int(limit / 1e9 + 0.999) # as the letters, rounded up
            bar = substr(bar, 1, mark) "|" substr(bar, mark + 1)
            sub(/ +$/, "", bar)
            printf "%-46s %-4s %5.1f %8.1f %9.0f %10.0f  %s\n", name, fits, bytes["peak"] / 1e9, sent / 1e9, ms,
                batch * 2048 / ms * 1000, bar
            if (differ) print "error: computed and measured numbers differ:" differ
            exit differ != ""
        }' "$log"
}

# The layers are chosen so that the models fit as described. A layer of width 2048 has 50 million parameters, which take
# 0.8 GB with AdamW, and 0.54 GB of activations; one of width 4096 has 201 million parameters.
extra=("$@")
layers=$(awk -v memory="$memory" 'BEGIN { n = int(memory * 1.07 / 1.34e9); print n < 30 ? (n > 1 ? n : 1) : 30 }')
wide=$(awk -v memory="$memory" -v ranks="$ranks" 'BEGIN { n = int(memory * ranks * 0.63 / 3.22e9); print n < 60 ? (n > 1 ? n : 1) : 60 }')
small=(--size 1b --layers "$layers" --batch $((2 * ranks)))
deep=(--size 1b --layers $((2 * layers)) --batch $((2 * ranks)))
large=(--size 8b --batch $((4 * ranks)) --recompute 1)
echo "$ranks ranks, each with $((memory / 1000000)) MB of device memory; sequences of 2048 tokens, AdamW, fp32"
echo "P parameters, G gradients, O optimizer, W gathered units, A activations and all else: 1 GB a letter; |: the end of the memory"
printf '%-46s %-4s %5s %8s %9s %10s\n' "" fits "GB" "GB sent" "ms a step" "tokens/s"
run "$layers layers of 2048, none" "${small[@]}" --strategy none
run "$layers layers of 2048, full" "${small[@]}"
run "$((2 * layers)) layers of 2048, full" "${deep[@]}"
run "$((2 * layers)) layers of 2048, full, recompute" "${deep[@]}" --recompute 1
run "$((2 * layers)) layers of 2048, full, bf16" "${deep[@]}" --precision bf16
run "$wide layers of 4096, full, recompute" "${large[@]}" --layers "$wide"
large+=(--accumulate 4)
run "$wide layers of 4096, full, recompute, accumulate" "${large[@]}" --layers "$wide"
run "the same in bf16" "${large[@]}" --layers "$wide" --precision bf16
run "the same with $((wide * 13 / 10)) layers" "${large[@]}" --layers "$((wide * 13 / 10))" --precision bf16
