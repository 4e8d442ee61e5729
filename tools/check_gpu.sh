#!/usr/bin/env bash
# check_gpu.sh gpu|cpu [PATTERN]: checks whether the whole course works on the GPUs of this machine. It takes at most
# eight minutes on one GPU; several GPUs get more checks and more time. It prints a line for each check and a table at
# the end. It writes the results to build/check-gpu/report.md, a section for docs/measurements.md, and the output of each
# check to a file beside it. "cpu" runs those checks that make sense on the CPU device, with two simulated GPUs.
# The pattern (an extended regular expression) selects checks by their names.
set -u
cd "$(dirname "$0")/.." || exit 1
device=${1:-} pattern=${2:-.} out=build/check-gpu one_process=''
[[ $device == [gc]pu ]] || { echo "usage: check_gpu.sh gpu|cpu [PATTERN]" >&2 && exit 2; }
if [ "$device" = gpu ]; then
    gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU ') # the other lines describe parts of a GPU (MIG)
    if [ "$gpus" = 0 ]; then
        echo "error: nvidia-smi lists no GPU here; make check-gpu DEVICE=cpu runs the checks without a GPU" >&2
        exit 1
    fi
    [ -z "${CUDA_VISIBLE_DEVICES:-}" ] || gpus=$(tr , '\n' <<<"$CUDA_VISIBLE_DEVICES" | grep -c .)
    first=${CUDA_VISIBLE_DEVICES:-0}
    mode=$(nvidia-smi -i "${first%%,*}" --query-gpu=compute_mode --format=csv,noheader 2>/dev/null)
    [[ $mode != Exclusive* ]] || one_process="the compute mode is $mode; nvidia-smi -c DEFAULT (as root) allows two"
    bin=build/check-gpu-native native=(BUILD="$bin" ARCH=native) epochs=3 least=97 width=()
    models=("mlp" "cnn" "resnet --depth 20" "resnet --depth 18") timed=200 rungs=()
    table=(--max-bytes 64M --factor 8) large=(--hidden "4096,4096" --batch 4096 --epochs 2)
else
    gpus=2 bin=build/cpu native=() epochs=2 least=90 width=(--hidden 64) models=("mlp" "cnn") timed=4 rungs=(--steps 20)
    table=(--max-bytes 256K --factor 32 --iters 5) large=(--hidden "256,256" --batch 1024 --epochs 1)
    export CPU_DEVICES=$gpus
fi
most=${CHECK_TOTAL:-$((gpus > 1 ? 900 : 480))} # seconds for all checks
limit=${CHECK_LIMIT:-120} # and for each command of a check
ranks=1 # on several GPUs: a power of two, which divides the batch
while [ $((ranks * 2)) -le "$gpus" ] && [ $ranks -lt 16 ]; do ranks=$((ranks * 2)); done
rm -rf "$out" && mkdir -p "$out" || exit 1
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null; rm -rf "$work"' EXIT
trap 'exit 1' HUP INT TERM
export CHECK_WORK=$work CHECK_GPUS=${CUDA_VISIBLE_DEVICES:-$(seq -s, 0 $((gpus - 1)))} CUDA_MODULE_LOADING=LAZY
no_bfloat16='this GPU has no products of bfloat16 matrices' # common/device/device.c
rows=() figures=() logs=() passed=0 failed=0 skipped=0 nccl=NCCL

record() { # RESULT NAME SECONDS REASON
    printf '%-4s %4s s  %s%s\n' "$1" "$3" "$2" "${4:+: $4}"
    rows+=("$1|$2|$3|${4//|/ }")
}

# Starts a command with a time limit in the background, so that a signal to this script also ends the command.
start() {
    local left=$((most - SECONDS))
    [ $left -gt 0 ] || return 1
    timeout -k 5 $((left < limit ? left : limit)) "$@" &
}

limited() {
    local code
    start "$@" || return
    wait $!
    code=$?
    [ $code != 124 ] || echo "check-gpu ended this check: it took too long"
    return $code
}

# check NAME COMMAND...: passes if the command succeeds. The last line of the output is the reason of a failure, or the
# line of a tool that begins with "error: ". It is no failure if this machine cannot run the check: if the time for all
# checks is over, or the command returns CANNOT.
CANNOT=77
check() {
    local begin=$SECONDS code reason
    log=/dev/null
    [[ $1 =~ $pattern || $1 == *build* ]] || return 0
    [[ $1 != *"ranks on one GPU"* || -z $one_process ]] || { skip "$1" "$one_process" && return; }
    printf -v log '%s/%02d.txt' "$out" $((passed + failed + 1))
    if [ "$(type -t "$2")" = function ]; then "${@:2}"; else limited "${@:2}"; fi >"$log" 2>&1
    code=$?
    reason=$(grep -m 1 '^error: ' "$log" || grep . "$log" | tail -n 1)
    if [ $code = 0 ]; then
        passed=$((passed + 1))
        record ok "$1" $((SECONDS - begin)) ""
    elif [ $code = $CANNOT ]; then
        skip "$1" "$reason"
    elif grep -q "$no_bfloat16" "$log"; then
        skip "$1" "$no_bfloat16"
    elif [ $SECONDS -ge "$most" ]; then
        skip "$1" "the time limit for all checks, $most s, is over"
        return 1
    else
        failed=$((failed + 1))
        logs+=("$log")
        record FAIL "$1" $((SECONDS - begin)) "$reason [exit code $code, $log]"
        return 1
    fi
}

skip() { # NAME REASON
    [[ $1 =~ $pattern ]] || return 0
    skipped=$((skipped + 1))
    record skip "$1" 0 "$2"
}

# racecheck PROGRAM OPTION...: fails for races in our kernels. Those of cuBLAS may have accesses that look like races.
racecheck() {
    local code
    limited "${one[@]}" compute-sanitizer --tool racecheck --print-limit 10000 "$@" >"$work/log" 2>&1
    code=$?
    cat "$work/log"
    ! grep -wFf <(grep -ohE '[a-z0-9_]+_kernel\(' {common,zoo}/kernels/*.cu | tr -d '(') "$work/log" || return 1
    return $code
}

# figure PATTERN: the report shows these lines of the last check's output.
figure() {
    local line
    while IFS= read -r line; do figures+=("$line"); done < <(grep -E "$1" "$log")
}

# same_losses CSV CSV MOST: compares the losses of 20 steps. The relative difference may be at most MOST.
same_losses() {
    awk -F, -v most="$3" '
        FNR == 1 { file++ }
        FNR == 1 || $2 == "" { next }
        file == 1 { want[$1] = $2; n++ }
        file == 2 { m++; d = ($2 - want[$1]) / want[$1]; d = d < 0 ? -d : d; if (!(d <= worst)) { worst = d; at = $1 } }
        END {
            printf "%d losses, %d wanted; the largest relative difference is %g (training step %d), the limit is %g\n", m, n, worst, at, most
            exit !(n == m && n == 20 && worst <= most)
        }' "$1" "$2"
}

# same_files PATH PATH: compares two snapshots. The names of all files of a snapshot begin with its path.
same_files() {
    local file
    for file in "$1"*; do
        cmp "$file" "$2${file#"$1"}" || return
    done
}

# trains MOST COMMAND...: compares the losses of 20 steps with check_gpu.csv, which step 1 wrote on the CPU device. A
# machine with a GPU may lack the libraries that the CPU device needs.
trains() {
    rm -f "$work/x.csv"
    limited "${@:2}" "${short[@]}" --csv "$work/x.csv" && same_losses tools/check_gpu.csv "$work/x.csv" "$1"
}

# A whole run of step 1.
whole() {
    limited "${one[@]}" "$bin/01_single_gpu/train" "${data[@]}" "${width[@]}" --epochs $epochs "$@"
}

accurate() { # LEAST
    whole >"$work/log" 2>&1 || { cat "$work/log" && return 1; }
    cat "$work/log"
    awk -v least="$1" '
        / accuracy / { sub(/.* accuracy /, ""); last = $1 + 0 }
        END { printf "the test accuracy is %.2f %%, the limit is %s %%\n", last, least; exit !(last >= least) }' "$work/log"
}

# The ladder of step 1, and the modelled time of each rung (docs/ladder.md) beside the measured one.
ladder() {
    limited "${one[@]}" "$bin/01_single_gpu/ladder" "${data[@]}" "${width[@]}" "${rungs[@]}" --floor >"$work/log" 2>&1
    local code=$?
    cat "$work/log"
    [ $code = 0 ] && awk '
        /^[0-6] .* (fp32|tf32) / {
            for (i = 2; $i !~ /^(fp32|tf32)$/;) i++
            if (FNR == NR) { if (!($1 in modelled)) modelled[$1] = $(i + 1) }
            else printf "rung %d: %.4f ms, modelled for an H100: %.4f ms\n", $1, $(i + 1), modelled[$1]
        }' docs/ladder.md "$work/log"
}

# The milliseconds of a training step of each model, and of its phases.
times() {
    local model
    for model in "${models[@]}"; do
        # shellcheck disable=SC2086 # several words
        limited "${one[@]}" "$bin/01_single_gpu/train" "${data[@]}" --model $model --max-steps "$timed" --profile \
            >"$work/log" 2>&1 || { cat "$work/log" && return 1; }
        awk -v model="$model" -v first="${models[0]}" '
            function row(name, from) { printf "%-20s", name; for (i = from; i <= NF; i++) printf "%9s", $i; print "" }
            /^profile/ && model == first { row("ms per training step", 5) }
            $1 == "ms" { row(model, 2) }' "$work/log"
    done
}

same_in_a_second_run() {
    whole --snapshot "$work/first" && whole --snapshot "$work/second" && cmp "$work/first" "$work/second"
}

same_after_a_restart() {
    [ -e "$work/first" ] || whole --snapshot "$work/first" || return
    whole --snapshot "$work/parts" --max-steps 300 && whole --snapshot "$work/parts" && cmp "$work/first" "$work/parts"
}

# Compares two runs on several GPUs. With NVLS, NCCL may add numbers in a different order in each run.
same_again() { # COMMAND...
    local path
    rm -f "$work"/run.*
    for path in run.1 run.2; do
        NCCL_NVLS_ENABLE=0 limited "$@" --epochs 1 --snapshot "$work/$path" || return
    done
    same_files "$work/run.1" "$work/run.2"
}

# Waits until the command succeeds. Fails if the run in the background ends first.
wait_until() {
    until "$@"; do
        kill -0 $! 2>/dev/null || { echo "the run ended too early; waited for: $*" && return 1; }
        sleep 0.02
    done
}

# Rank 1 stops forever. Rank 0 must report that a training step takes too long, and the job must end.
stopped_rank() {
    local code
    : >"$work/log" # clears the log of the run before
    start "${pair[@]}" --shutdown-timeout 3 "${as_rank[@]}" "$bin/04_multinode/train" "${small[@]}" \
        --epochs 100000 --step-timeout 5 >"$work/log" 2>&1 || { cat "$work/log" && return 1; }
    wait_until grep -q ' step 10/' "$work/log" && kill -STOP "$(cat "$work/pid.1")"
    wait $!
    code=$?
    cat "$work/log"
    if grep -q cudaErrorLaunchTimeout "$work/log"; then
        echo "a display uses this GPU, and the driver ended the kernel that waited before --step-timeout was over"
        return $CANNOT
    fi
    grep -q -- '--step-timeout' "$work/log" || { echo "no rank reported that --step-timeout is over" && return 1; }
    [ "$code" = 1 ] || { echo "the exit code is $code, not 1" && return 1; }
}

goes_on() { # succeeds if the run has trained since it resumed, or has begun again, which is wrong
    sed '1,/^resumed /d' "$work/log" | grep -q ' step ' || [ "$(grep -c '^epoch 1/[0-9]*  loss ' "$work/log")" -gt 1 ]
}

# Rank 1 is killed after an epoch, and all ranks restart. Then a signal stops them. Their snapshot must hold the same
# bits as that of an undisturbed run with the same number of steps.
killed_rank() { # PROGRAM
    local code steps train=("${as_rank[@]}" "$1" "${small[@]}" --epochs 100000)
    rm -f "$work"/run.*
    : >"$work/log"
    start "${pair[@]}" --shutdown-timeout 5 --max-restarts 1 "${train[@]}" --snapshot "$work/run.1" >"$work/log" 2>&1 ||
        { cat "$work/log" && return 1; }
    if wait_until grep -q '^epoch 1/[0-9]*  loss ' "$work/log" && kill -KILL "$(cat "$work/pid.1")"; then
        wait_until goes_on && kill -USR1 "$(cat "$work/pid.0")"
    fi
    wait $!
    code=$?
    cat "$work/log"
    grep -q '^resumed ' "$work/log" || { echo "the ranks did not start again: exit code $code" && return 1; }
    grep -q "^told to stop" "$work/log" || code="$code, no rank was told to stop"
    [ "$code" = 0 ] || { echo "the ranks did not stop correctly: exit code $code" && return 1; }
    steps=$(awk '/^training / { each = $2 } /^epoch .*  loss .* accuracy / { steps = ($2 + 0) * each }
        /^stopped after step / { steps = $4 } END { print steps }' "$work/log")
    limited "${pair[@]}" "${train[@]}" --max-steps "$steps" --snapshot "$work/run.2" || return
    same_files "$work/run.1" "$work/run.2"
}

machine() {
    local nvcc
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

# Writes the section for docs/measurements.md, and prints the table and how to report failures. Fails if a check failed.
finish() {
    local row result name seconds reason total="$passed passed, $failed failed, $skipped skipped in $SECONDS s"
    {
        echo "## make check-gpu: $total"
        echo
        echo '```'
        machine
        printf '%s\n' "${figures[@]}"
        echo '```'
        echo
        echo "| check | result | seconds |"
        echo "|---|---|--:|"
        for row in "${rows[@]}"; do
            IFS='|' read -r result name seconds reason <<<"$row"
            echo "| $name | $result${reason:+: $reason} | $seconds |"
        done
    } >"$out/report.md"
    echo
    machine
    printf '\n%-6s %7s  %s\n' result seconds check
    for row in "${rows[@]}"; do
        IFS='|' read -r result name seconds reason <<<"$row"
        printf '%-6s %7s  %s\n' "$result" "$seconds" "$name"
        [ -z "$reason" ] || printf '%16s%s\n' "" "$reason"
    done
    echo "$total; $out/report.md is a section for docs/measurements.md"
    [ $failed = 0 ] && return
    echo "To report a failure, open an issue with the template \"GPU report\" and attach $out/report.md ${logs[*]}"
    return 1
}

data=(--data synthetic)
for file in data/mnist/train-images-idx3-ubyte{,.gz}; do
    [ ! -e "$file" ] || data=(--data data/mnist)
done
short=(--data synthetic --lr 0.01 --log-every 1 --max-steps 20)
small=("${data[@]}" --hidden 64 --batch 512 --log-every 10)
launch=$bin/03_multigpu_launcher/launch
one=(env CUDA_VISIBLE_DEVICES="${CHECK_GPUS%%,*}")
share=("${one[@]}" SHARE_GPUS=1 NCCL_SOCKET_IFNAME=lo)
pair=("${share[@]}" "$launch" --standalone --nproc-per-node 2)
# shellcheck disable=SC2016 # expanded by the ranks
as_rank=(sh -c 'echo $$ >"$CHECK_WORK/pid.$RANK" && exec "$0" "$@"')

tests=()
for test in tests/unit/test_*.c; do
    test=$(basename "$test" .c)
    if [ ! -e /usr/include/cmocka.h ]; then
        skip "unit/$test" "it needs cmocka (Debian: libcmocka-dev)"
    else
        tests+=("$test")
    fi
done
check "the programs and unit tests build" make -j"$(nproc)" DEVICE="$device" "${native[@]}" programs \
    "${tests[@]/#/$bin/tests/unit/}" || { finish; exit 1; }
check "step 4: the doctor" "${one[@]}" "$bin/04_multinode/doctor"
nccl=$(grep -oE 'NCCL [0-9.]+' "$log" || echo NCCL)
for test in "${tests[@]}"; do
    check "unit/$test" "${one[@]}" "$bin/tests/unit/$test"
done

check "step 1: the losses of the CPU device" trains 1e-5 "${one[@]}" "$bin/01_single_gpu/train"
check "step 1: the accuracy" accurate $least
figure '^(device|memory)|^epoch .* accuracy'
check "step 1: the ladder" ladder
figure '^(rung|[0-6] )'
check "step 1: the times of a training step" times
figure .
check "step 1: the same bits in a second run" same_in_a_second_run
check "step 1: the same bits after a restart within an epoch" same_after_a_restart
if [ "$device" = cpu ]; then
    skip "compute-sanitizer" "it checks only kernels on a GPU"
elif ! command -v compute-sanitizer >/dev/null; then
    skip "compute-sanitizer" "it is not in PATH; it comes with the CUDA toolkit"
else
    tiny=(--data synthetic --hidden "33,17" --batch 32 --max-steps 3)
    for tool in memcheck initcheck synccheck; do
        check "compute-sanitizer $tool, step 1" "${one[@]}" compute-sanitizer --tool $tool --error-exitcode 9 \
            "$bin/01_single_gpu/train" "${tiny[@]}"
    done
    check "compute-sanitizer racecheck, step 1" racecheck "$bin/01_single_gpu/train" "${tiny[@]}"
    # NCCL tries what the driver can do, and expects that some of these calls fail.
    check "compute-sanitizer memcheck, step 7 in bfloat16" "${one[@]}" compute-sanitizer --tool memcheck \
        --report-api-errors no --error-exitcode 9 "$bin/07_large_models/train" "${tiny[@]}" --precision bf16 --accumulate 32 --clip 1 --recompute 1
fi

for step in 3_multigpu_launcher 4_multinode 5_fsdp; do
    check "step ${step%%_*}, two ranks on one GPU: the losses of step 1" trains 1e-5 \
        "${pair[@]}" "${as_rank[@]}" "$bin/0$step/train"
done
for options in "--strategy grad" "--strategy none" "--strategy hybrid" "--accumulate 4 --clip 1000 --recompute 1"; do
    # shellcheck disable=SC2086 # several words
    check "step 7 $options, two ranks on one GPU: the losses of step 1" trains 1e-5 \
        "${pair[@]}" "${as_rank[@]}" "$bin/07_large_models/train" $options
done
check "step 7 in bfloat16, two ranks on one GPU: losses near those of step 1" trains 0.03 \
    "${pair[@]}" "${as_rank[@]}" "$bin/07_large_models/train" --precision bf16
for pipeline in gpipe 1f1b; do
    check "step 8 --pipeline $pipeline, two ranks on one GPU: the losses of step 1" trains 1e-5 \
        "${pair[@]}" "${as_rank[@]}" "$bin/08_pipeline/train" --pipeline $pipeline
done
check "step 9 --tensor 2, two ranks on one GPU: the losses of step 1" trains 1e-5 \
    "${pair[@]}" "${as_rank[@]}" "$bin/09_tensor/train" --tensor 2
for count in 2 4; do
    check "step 2, $count ranks on one GPU: the losses of step 1" trains 1e-5 \
        "${share[@]}" "$bin/02_multigpu_fork/train" --nproc $count
done
for step in 4_multinode 5_fsdp 7_large_models 8_pipeline; do
    check "step ${step%%_*}, 4 ranks on one GPU: the losses of step 1" trains 1e-5 \
        "${share[@]}" "$launch" --standalone --nproc-per-node 4 "$bin/0$step/train"
done
check "step 9, 8 ranks on one GPU, 2 replicas x 2 stages x 2 parts: the losses of step 1" trains 1e-5 \
    "${share[@]}" "$launch" --standalone --nproc-per-node 8 "$bin/09_tensor/train" --stages 2 --tensor 2
check "step 6, 4 ranks on one GPU: all operations" "${share[@]}" "$bin/06_allreduce_demo/allreduce" --nproc 4 --check-only
check "step 4, two ranks on one GPU: one stops, the watchdog ends the other" stopped_rank
for step in 3_multigpu_launcher 4_multinode 5_fsdp; do
    check "step ${step%%_*}, two ranks on one GPU: one is killed, both start again, the same bits" \
        killed_rank "$bin/0$step/train"
done

if [ "$gpus" = 1 ]; then
    check "step 6, one rank" "${one[@]}" "$bin/06_allreduce_demo/allreduce" --nproc 1 --check-only
    skip "several GPUs" "this machine has one"
else
    [ "$device" = gpu ] || export NCCL_SOCKET_IFNAME=lo
    # Where the GPUs of a machine cannot reach each other's memory, though the driver says so, NCCL waits forever.
    sums=("$bin/06_allreduce_demo/allreduce" --nproc "$ranks" --check-only)
    if ! check "step 6, $ranks GPUs: all operations" "${sums[@]}" && [ -z "${NCCL_P2P_DISABLE:-}" ]; then
        export NCCL_P2P_DISABLE=1
        check "step 6, $ranks GPUs: all operations with NCCL_P2P_DISABLE=1, as all checks from here on" "${sums[@]}" ||
            unset NCCL_P2P_DISABLE
    fi
    check "step 2, $ranks GPUs: the losses of step 1" trains 1e-5 "$bin/02_multigpu_fork/train" --nproc $ranks
    for step in 3_multigpu_launcher 4_multinode 5_fsdp; do
        all=("$launch" --standalone --nproc-per-node "$ranks" "$bin/0$step/train")
        check "step ${step%%_*}, $ranks GPUs: the losses of step 1" trains 1e-5 "${all[@]}"
        check "step ${step%%_*}, $ranks GPUs: the same bits in a second run" same_again "${all[@]}" "${small[@]}"
    done
    all=("$launch" --standalone --nproc-per-node "$ranks" "$bin/07_large_models/train")
    for strategy in grad none; do
        check "step 7 --strategy $strategy, $ranks GPUs: the losses of step 1" trains 1e-5 "${all[@]}" --strategy $strategy
    done
    if [ $ranks -ge 4 ]; then # hybrid shards within a node, so each half of the ranks acts as a node
        # shellcheck disable=SC2016 # expanded by the ranks
        check "step 7 --strategy hybrid, $ranks GPUs: the losses of step 1" trains 1e-5 "${all[@]:0:4}" bash -c \
            'IFS=, read -ra gpus <<<"$CHECK_GPUS" && half=$((WORLD_SIZE / 2)) && CUDA_VISIBLE_DEVICES=${gpus[RANK]} \
            LOCAL_RANK=$((RANK % half)) LOCAL_WORLD_SIZE=$half exec "$0" "$@"' "$bin/07_large_models/train" --strategy hybrid
    fi
    check "step 8, $ranks GPUs: the losses of step 1" trains 1e-5 "${all[@]:0:4}" "$bin/08_pipeline/train"
    for tensor in 2 $([ $ranks = 2 ] || echo $ranks); do
        check "step 9 --tensor $tensor, $ranks GPUs: the losses of step 1" trains 1e-5 "${all[@]:0:4}" "$bin/09_tensor/train" --tensor "$tensor"
    done
    check "step 6, $ranks GPUs: the table" "$bin/06_allreduce_demo/allreduce" --nproc $ranks --op all "${table[@]}"
    figure .
    for overlap in 0 1; do
        check "step 2, $ranks GPUs, ${large[*]} --overlap $overlap" "$bin/02_multigpu_fork/train" --nproc $ranks \
            "${data[@]}" "${large[@]}" --overlap $overlap
        figures+=("step 2, $ranks GPUs, ${large[*]} --overlap $overlap:")
        figure '^epoch .* accuracy'
    done
fi
finish
