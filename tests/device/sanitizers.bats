#!/usr/bin/env bats
# bats file_tags=test-all
# The trainers and the CPU device's own tests under AddressSanitizer with UBSan, under ThreadSanitizer, and under random
# delays of every operation. Two threads share each kernel, even on one core.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    need_train 02_multigpu_fork/train
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    set_build
    # ThreadSanitizer sleeps for a second at every exit, unless told otherwise. A fault of a tested program is explained in
    # a handler, with what handlers may not use.
    export OMP_NUM_THREADS=2 NCCL_SOCKET_IFNAME=lo TMPDIR=$PWD
    export TSAN_OPTIONS="die_after_fork=0 atexit_sleep_ms=0 report_signal_unsafe=0"
}

# clean COMMAND...: the command must end with 0 and without a report. Address randomisation is off, because ThreadSanitizer
# fails with some kernels' setting.
clean() {
    timeout "$(patience 300)" setarch -R "$@" >log 2>&1 || { echo "status $?: $*" && cat log && return 1; }
    ! grep -E 'Sanitizer|runtime error|WARNING' log
}

# Trains two epochs on two ranks of step 2 with evaluation and a snapshot, and one more from the snapshot.
train_step2() { # PROGRAM CSV
    local options=(--nproc 2 --data "$BATS_FILE_TMPDIR/tiny" --hidden "33,20" --batch 64 --log-every 3 --snapshot snapshot)
    rm -f snapshot
    CPU_DEVICES=2 clean "$1" "${options[@]}" --epochs 2 --csv "$2"
    CPU_DEVICES=2 clean "$1" "${options[@]}" --epochs 3 --csv "$2"
    grep -q '^resumed .* 2 epochs' log
}

same_losses_in_chaos() { # PROGRAM SEED...
    local seed
    train_step2 "$1" calm
    for seed in "${@:2}"; do
        CPU_DEVICE_CHAOS=$seed train_step2 "$1" chaos
        diff <(cut -d, -f1-6 calm) <(cut -d, -f1-6 chaos)
    done
}

@test "random delays change no loss" {
    same_losses_in_chaos "$build/02_multigpu_fork/train" 1 2 3
}

# Step 7 with many options on three ranks. Then another number of ranks continues from their shards.
step7_is_clean() { # SANITIZER SEED
    build_sanitized "$1" "build/${1:0:1}san/"{03_multigpu_launcher/launch,07_large_models/train}
    launch=$folder/03_multigpu_launcher/launch
    local step7=("$folder/07_large_models/train" --data "$BATS_FILE_TMPDIR/tiny" --hidden "33,20,9" --batch 60 --snapshot shards
        --optimizer adam)
    export CPU_DEVICES=3 CPU_DEVICE_CHAOS=$2 CPU_DEVICE_CHECK=1
    clean "$launch" --nproc-per-node 3 --tee "${step7[@]}" --epochs 1 --accumulate 2 --recompute 1 --unit-bytes 3000 --clip 0.5
    [ "$(find . -name 'shards.*of3' | wc -l)" = 3 ]
    clean "$launch" --nproc-per-node 2 --tee "${step7[@]}" --epochs 2 --strategy grad --precision bf16 --save full
    grep -q 'resumed .* 1 epoch ' log
}

@test "AddressSanitizer and UBSan find nothing in steps 2 and 7, and in the launcher" {
    build_sanitized address,undefined build/asan/02_multigpu_fork/train
    same_losses_in_chaos "$folder/02_multigpu_fork/train" 6
    step7_is_clean address,undefined 7
    # shellcheck disable=SC2016 # expanded by the ranks
    clean "$launch" --nproc-per-node 2 --tee --log-dir logs --max-restarts 2 sh -c 'seq 30000; seq 30000 >&2
        printf unfinished; yes | tr -d "\n" | head -c 200000; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 3'
}

@test "ThreadSanitizer finds nothing in step 7" {
    step7_is_clean thread 8
}

# The tests of the CPU device and of the kernels. The leak check stops threads in a way that conflicts with SIGCONT in one of
# NCCL's tests.
tests_are_clean() { # SANITIZER TEST...
    local tests test
    mapfile -t tests < <(cd "$root" && find tests/device -name 'test_nccl_*.c' ! -name '*large*')
    tests=(tests/device/test_{cpu_device,check,cublas} tests/unit/test_{kernels,image_kernels,sequence_kernels} "${@:2}" "${tests[@]%.c}")
    build_sanitized "$1" "${tests[@]/#/build/${1:0:1}san/}"
    for test in "${tests[@]}"; do
        [[ $test != */test_nccl_* ]] || export ASAN_OPTIONS=detect_leaks=0
        clean "$folder/$test"
    done
}

@test "AddressSanitizer and UBSan find nothing in the tests of the CPU device, kernels and layers" {
    tests_are_clean address,undefined tests/unit/test_layers{,_in_parts}
}

@test "ThreadSanitizer finds nothing in the tests of the CPU device and kernels" {
    tests_are_clean thread
}
