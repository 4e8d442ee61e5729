#!/usr/bin/env bats
# bats file_tags=test-all
# Trainers and unit tests under AddressSanitizer with UBSan, and under ThreadSanitizer, with random delays of every operation.
# Two threads share each kernel, even on one core.
load ../helpers

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    # ThreadSanitizer sleeps for a second at every exit, unless told otherwise. A fault of a tested program is explained in
    # a handler, with what handlers may not use.
    export OMP_NUM_THREADS=2 NCCL_SOCKET_IFNAME=lo TMPDIR=$PWD CPU_DEVICES=4 CPU_DEVICE_CHECK=1 CPU_DEVICE_CHAOS=9
    export TSAN_OPTIONS="die_after_fork=0 atexit_sleep_ms=0 report_signal_unsafe=0"
}

# clean COMMAND...: the command must end with 0 and without a report. Address randomisation is off, because ThreadSanitizer
# fails with some kernels' setting.
clean() {
    timeout "$(patience 300)" setarch -R "$@" >log 2>&1 || { echo "status $?: $*" && cat log && return 1; }
    ! grep -E 'Sanitizer|runtime error|WARNING' log
}

# Another number of ranks continues from the shards of the first. The launcher passes on long lines of ranks that end.
@test "AddressSanitizer and UBSan find nothing in step 7 and in the launcher" {
    build_sanitized address,undefined build/asan/{03_multigpu_launcher/launch,07_large_models/train}
    launch=("$folder/03_multigpu_launcher/launch" --tee --nproc-per-node)
    tiny_data tiny
    step7=("$folder/07_large_models/train" --data tiny --hidden "33,20,9" --batch 60 --snapshot shards --optimizer adam)
    clean "${launch[@]}" 3 "${step7[@]}" --epochs 1 --accumulate 2 --recompute 1 --unit-bytes 3000 --clip 0.5 \
        --load stream --workers 1
    [ "$(find . -name 'shards.*of3' | wc -l)" = 3 ]
    clean "${launch[@]}" 2 "${step7[@]}" --epochs 2 --strategy grad --precision bf16 --save full
    grep -q 'resumed .* 1 epoch ' log
    clean "${launch[@]}" 2 --log-dir logs --max-restarts 2 sh -c 'seq 30000; seq 30000 >&2
        printf unfinished; yes | tr -d "\n" | head -c 200000; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 3'
}

# Step 9 has the pipeline of step 8 and the kinds of collectives of the others. Another division of the ranks continues.
step9_is_clean() { # SANITIZERS
    build_sanitized "$1" "build/${1:0:1}san/"{03_multigpu_launcher/launch,09_tensor/train}
    seq 9000 | head -c 4000 >text
    local step9=("$folder/03_multigpu_launcher/launch" --nproc-per-node 4 --tee "$folder/09_tensor/train" --tensor 2 --batch 24
        --snapshot shards --data text:text --model gpt --layers 1 --heads 2 --width 16 --context 16 --optimizer adam)
    clean "${step9[@]}" --epochs 1 --stages 2 --sequence 1 --dropout 0.1 --load stream --workers 3
    [ "$(find . -name 'shards.*of4' | wc -l)" = 4 ]
    clean "${step9[@]}" --epochs 2 --stages 1 --overlap 0
    grep -q 'resumed .* 1 epoch ' log
}

@test "AddressSanitizer and UBSan find nothing in step 9" {
    step9_is_clean address,undefined
}

@test "ThreadSanitizer finds nothing in step 9" {
    step9_is_clean thread
}

@test "AddressSanitizer and UBSan find nothing in tests of kernels and layers" {
    unset CPU_DEVICE_CHAOS CPU_DEVICE_CHECK
    build_sanitized address,undefined build/asan/tests/unit/test_{kernels,layers}
    for test in "$folder"/tests/unit/test_{kernels,layers}; do
        clean "$test"
    done
}

# sanitize TOOL OPTION...: NVIDIA's compute-sanitizer looks for mistakes of kernels on a GPU, with tiny models in fp32, TF32 and
# bfloat16. Attention has kernels for heads of up to 64 values and up to 128.
sanitize() {
    local model program pids pid gpt="--data text --model gpt --layers 1 --heads 1 --context 65 --dropout 0.1 --batch 2 --width"
    on_gpu || skip "compute-sanitizer checks only kernels on a GPU"
    PATH+=:${CUDA_HOME:-/usr/local/cuda}/bin
    command -v compute-sanitizer || { echo "compute-sanitizer is not in PATH; it comes with the CUDA toolkit" && return 1; }
    for model in "--data synthetic --hidden 33,17 --batch 32" "$gpt 64" "$gpt 72" "$gpt 128"; do
        pids=()
        for program in "01_single_gpu/train" "01_single_gpu/train --tf32 1" \
            "07_large_models/train --precision bf16 --accumulate 2 --clip 1 --recompute 1"; do
            # shellcheck disable=SC2086 # words
            timeout "$(patience 120)" compute-sanitizer --tool "$@" "${TRAIN%01_single_gpu/train}"$program $model --max-steps 2 \
                >>log 2>&1 3>&- &
            pids+=($!)
        done
        for pid in "${pids[@]}"; do
            wait "$pid" || { echo "status $?: $1, $model" && cat log && return 1; }
        done
    done
}

# NCCL tries what the driver can do, and expects that some of these calls fail.
# bats test_tags=gpu
@test "the kernels use their own memory only" {
    sanitize memcheck --error-exitcode 9 --report-api-errors no
}

# bats test_tags=gpu
@test "the kernels read no memory that nobody has written" {
    sanitize initcheck --error-exitcode 9
}

# bats test_tags=gpu
@test "the kernels synchronise their threads" {
    sanitize synccheck --error-exitcode 9
}

# Kernels of cuBLAS may have accesses that look like races.
# bats test_tags=gpu
@test "no kernel of the course has a race" {
    sanitize racecheck --print-limit 10000
    run ! grep -wFf <(grep -rohE --include='*.cu' '[a-z0-9_]+_kernel\(' "$root"/{common,zoo} | tr -d '(') log
}
