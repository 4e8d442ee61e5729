#!/usr/bin/env bash
# check_gpu.sh gpu|cpu: runs the tests for GPUs (LEVEL=gpu tests/run.sh) on all GPUs of this machine, and measures what tests
# do not. "cpu" does the same on the CPU device. build/check-gpu/report.md is a section for docs/measurements.md, also after
# a signal; tests.txt beside it has the output of the tests.
# shellcheck disable=SC2016,SC2317,SC2329 # backticks are of Markdown; some functions are arguments of others
set -u
cd "$(dirname "$0")/.." || exit 1
device=${1:-} out=build/check-gpu
[[ $device == [gc]pu ]] || { echo "usage: check_gpu.sh gpu|cpu" >&2 && exit 2; }
if [ "$device" = gpu ]; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') # the other lines describe parts of a GPU (MIG)
    if [ "$gpus" = 0 ]; then
        echo "error: nvidia-smi lists no GPU here; make check-gpu DEVICE=cpu runs the tests without a GPU" >&2
        exit 1
    fi
    mode=$(nvidia-smi --query-gpu=compute_mode --format=csv,noheader 2>/dev/null | grep -m 1 '^Exclusive') && {
        echo "error: the compute mode is $mode, and these tests let ranks share a GPU: nvidia-smi -c DEFAULT (as root) allows it" >&2
        exit 1
    }
    bin=build/check-gpu-native build=(BUILD="$bin" ARCH=native) epochs=3 models=("mlp" "cnn" "resnet --depth 20" "resnet --depth 18")
    timed=200 width=() rungs=() table=(--max-bytes 64M --factor 8) large=(--hidden "4096,4096" --batch 4096 --epochs 2)
else
    gpus=2 bin=build/test build=(BUILD="$bin") epochs=2 models=("mlp" "cnn")
    timed=4 width=(--hidden 64) rungs=(--steps 20) table=(--max-bytes 256K --factor 32 --iters 5) large=(--hidden "256,256" --batch 1024 --epochs 1)
    export CPU_DEVICES=$gpus NCCL_SOCKET_IFNAME=lo
fi
. tools/begin.sh
packed=$PWD/build/packed # by make pack-tests
if [ -d "$packed" ]; then
    export PATH=$packed/bin:$PATH C_INCLUDE_PATH=$packed/include${C_INCLUDE_PATH:+:$C_INCLUDE_PATH}
    export LIBRARY_PATH=$packed/lib${LIBRARY_PATH:+:$LIBRARY_PATH} LD_LIBRARY_PATH=$packed/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
fi
rm -rf "$out" && mkdir -p "$out" || exit 1
rows='' figures='' failed=0
data=(--data synthetic)
for file in data/mnist/train-images-idx3-ubyte{,.gz}; do
    [ ! -e "$file" ] || data=(--data data/mnist)
done

machine() {
    local nvcc nccl
    nccl=$("$bin/04_multinode/doctor" 2>&1 | grep -m 1 -oE 'NCCL [0-9.]+')
    if [ "$device" = gpu ]; then
        nvidia-smi --query-gpu=name,memory.total,driver_version --format=csv,noheader | sort | uniq -c |
            sed -E 's/ *([0-9]+) (.*), /GPU       \1 x \2, driver /'
        nvcc=$(command -v nvcc || ls "${CUDA_HOME:-/usr/local/cuda}/bin/nvcc")
        echo "CUDA      $("$nvcc" --version | sed -n 's/.*release //p'), $nccl"
    else
        echo "GPU       none: a trial on the CPU device, which stands for $nccl"
    fi
    echo "machine   $(lscpu | sed -n 's/^Model name: *//p' | head -n 1), $(nproc) cores, $(uname -sr)"
    echo "system    $(sed -n 's/^PRETTY_NAME="\(.*\)"/\1/p' /etc/os-release), $(cc --version | head -n 1)"
    echo "sources   $(git describe --always --dirty 2>/dev/null || echo "no git checkout"), $(date -u '+%d %B %Y, %H:%M UTC')"
    echo "data      ${data[1]}"
}

# Writes the report of what has run so far.
report() {
    {
        echo "## make check-gpu: $(tail -n 1 "$out/tests.txt" 2>/dev/null)"
        printf '\n```\n%s\n%s```\n\n' "$(machine)" "$figures"
        printf '| tests | result | seconds |\n|---|---|--:|\n%s' "$rows"
        sed -nE 's/^[0-9]+\/[0-9]+ (ok|FAILED) (.*), ([0-9]+) s$/| \2 | \1 | \3 |/p' "$out/tests.txt"
        printf '\n```\n%s\n```\n' "$(sed -n '/^skipped, and why:/,$p' "$out/tests.txt")"
    } >"$out/report.md" 2>/dev/null
    rm -rf "$work"
}
trap report EXIT
trap 'exit 1' HUP INT TERM

# measure NAME PATTERN COMMAND...: the report shows these lines of what the command prints.
measure() {
    local begin=$SECONDS result=ok
    "${@:3}" >"$work/log" 2>&1 || { result=FAILED failed=$((failed + 1)) && tail -n 5 "$work/log"; }
    figures+=$(grep -E "$2" "$work/log")$'\n'
    rows+="| $1 | $result | $((SECONDS - begin)) |"$'\n'
    echo "$result $1, $((SECONDS - begin)) s"
}

train() { # STEP OPTION...
    timeout -k 5 120 "$bin/$1/train" "${data[@]}" "${@:2}"
}

# The ladder of step 1, and the modelled time of each rung (docs/single-gpu-first.md) beside the measured one.
ladder() {
    timeout -k 5 120 "$bin/01_single_gpu/ladder/ladder" "${data[@]}" "${width[@]}" "${rungs[@]}" --floor >"$work/ladder" || return
    cat "$work/ladder"
    awk '
        /^[0-6] .* (fp32|tf32) / {
            for (i = 2; $i !~ /^(fp32|tf32)$/;) i++
            if (FNR == NR) { if (!($1 in modelled)) modelled[$1] = $(i + 1) }
            else printf "rung %d: %.4f ms, modelled for an H100: %.4f ms\n", $1, $(i + 1), modelled[$1]
        }' docs/single-gpu-first.md "$work/ladder"
}

# The milliseconds of a training step of each model, and of its phases.
times() {
    local model
    for model in "${models[@]}"; do
        # shellcheck disable=SC2086 # several words
        train 01_single_gpu --model $model --max-steps "$timed" --profile >"$work/times" || return
        awk -v model="$model" -v first="${models[0]}" '
            function row(name, from) { printf "%-20s", name; for (i = from; i <= NF; i++) printf "%9s", $i; print "" }
            /^profile/ && model == first { row("ms per training step", 5) }
            $1 == "ms" { row(model, 2) }' "$work/times"
    done
}

make -s -j"$(nproc)" DEVICE="$device" "${build[@]}" programs || exit 1
measure 'the accuracy of step 1' '^(device|memory)|^epoch .* accuracy' train 01_single_gpu "${width[@]}" --epochs $epochs
measure 'the ladder of step 1' '^(rung|[0-6] )' ladder
measure 'the times of a training step' . times
if [ "$gpus" -gt 1 ]; then
    measure "step 6, $gpus GPUs" . timeout -k 5 120 "$bin/06_allreduce_demo/allreduce" --nproc "$gpus" --op all "${table[@]}"
    for overlap in 0 1; do
        measure "step 2, $gpus GPUs, ${large[*]} --overlap $overlap" '^epoch .* accuracy' \
            train 02_multigpu_fork --nproc "$gpus" "${large[@]}" --overlap $overlap
    done
fi
if DEVICE=$device tools/deps.sh gpu; then
    LEVEL=gpu DEVICE=$device tests/run.sh | tee "$out/tests.txt"
    [ "${PIPESTATUS[0]}" = 0 ] || failed=$((failed + 1))
else
    echo "0 passed, 1 failed: the packages for the tests are missing; make pack-tests packs two of them on another machine" | tee "$out/tests.txt"
    failed=$((failed + 1))
fi
echo "$out/report.md is a section for docs/measurements.md"
[ $failed = 0 ] && exit
echo "To report a failure, open an issue with the template \"GPU report\", and attach $out/report.md and $out/tests.txt"
exit 1
