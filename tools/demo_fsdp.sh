#!/bin/bash
# demo_fsdp.sh [--data FOLDER]: trains a model that does not fit on one device. It tries step 4 first, which runs out of
# memory, and then trains the sharded model with step 7. For each strategy, it prints the memory, the bytes sent and the
# time. On the CPU device, MEMORY (256M) limits the device memory, and four ranks act as two nodes for --strategy hybrid.
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
    ranks=4 memory=$(numfmt --from=iec "${MEMORY:-256M}")
    export CPU_DEVICES=$ranks NCCL_SOCKET_IFNAME=lo
fi
# The model has about 7 width^2 parameters. With Adam, each takes 16 bytes: 1.2 times the memory in all.
width=$(awk -v memory="$memory" 'BEGIN { print int(sqrt(1.2 * memory / 112)) }')
options=("$@" --hidden "$width,$width,$width,$width,$width,$width,$width,$width" --optimizer adam --max-steps 12 --log-every 4)
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# train PROGRAM OPTION...: runs the program on all ranks. $log holds each line of the output, after the time it came.
train() {
    03_multigpu_launcher/launch --nproc-per-node "$ranks" "$@" "${options[@]}" 2>&1 |
        while IFS= read -r line; do echo "$EPOCHREALTIME $line"; done >"$log"
    return "${PIPESTATUS[0]}"
}

# Works like train, with the limit of the device memory.
limited() {
    if [ "$device" = gpu ]; then train "$@"; else CPU_DEVICE_MEMORY=$((memory >> 20))M train "$@"; fi
}

# Prints the output and ends the script, unless the run failed because the device memory was full.
out_of_memory() {
    grep -q 'out of device memory' "$log" || { cut -d' ' -f2- "$log" >&2 && exit 1; }
}

# Prints the table's line for a run, from its log.
row() { # NAME FITS
    awk -v name="$1" -v fits="$2" '
        / step 4\// { begin = $1 }
        / step 12\// { end = $1 }
        $2 == "peak" { peak = sprintf("%.0f", $3 / 1e6) }
        $2 == "sent" { sent = sprintf("%.0f", $5 / 1e6) }
        END {
            printf "%-34s %6s %12s %16s %12s\n", name, fits, peak, sent, end ? sprintf("%.0f", (end - begin) / 8 * 1000) : ""
        }' "$log"
}

compare() { # OPTIONS PROGRAM...
    local fits=yes words
    read -ra words <<<"$1"
    echo "training with $1 ..." >&2 # a run takes up to a minute
    if ! limited "${@:2}" "${words[@]}"; then
        out_of_memory
        fits=no
        [ "$device" = gpu ] || train "${@:2}" "${words[@]}" || out_of_memory # measures the rest without the limit
    fi
    row "$1" $fits
}

echo "$ranks ranks, each with $((memory / 1000000)) MB of device memory; 8 hidden layers of $width, Adam, batch 128"
echo "04_multinode/train:"
echo "training with step 4 ..." >&2
if limited 04_multinode/train; then
    echo "error: the model fits into the memory of one device" >&2
    exit 1
fi
out_of_memory
sed -n 's/^[^ ]* \(error .*\)/  \1/p' "$log" | head -n 1
printf '%-34s %6s %12s %16s %12s\n' "07_large_models/train:" fits "MB per rank" "MB sent per step" "ms per step"
for strategy in none grad full; do
    compare "--strategy $strategy" 07_large_models/train
done
# shellcheck disable=SC2016 # expanded by the ranks
[ "$device" = gpu ] || compare "--strategy hybrid" sh -c \
    'LOCAL_WORLD_SIZE=2 LOCAL_RANK=$((RANK % 2)) NCCL_HOSTID=$((RANK / 2)) exec "$0" "$@"' 07_large_models/train
compare "--strategy full --prefetch 0" 07_large_models/train
compare "--strategy full --precision bf16" 07_large_models/train
