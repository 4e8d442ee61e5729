#!/usr/bin/env bats
# bats file_tags=test-all
# Trainers and unit tests under AddressSanitizer with UBSan, under ThreadSanitizer, and under random
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

@test "random delays change no loss" {
    train_step2 "$build/02_multigpu_fork/train" calm
    CPU_DEVICE_CHAOS=1 train_step2 "$build/02_multigpu_fork/train" chaos
    diff <(cut -d, -f1-6 calm) <(cut -d, -f1-6 chaos)
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

# Step 7 makes the collectives of the others. The launcher passes on long lines of ranks that end.
@test "AddressSanitizer and UBSan find nothing in step 7 and in the launcher" {
    step7_is_clean address,undefined 7
    # shellcheck disable=SC2016 # expanded by the ranks
    clean "$launch" --nproc-per-node 2 --tee --log-dir logs --max-restarts 2 sh -c 'seq 30000; seq 30000 >&2
        printf unfinished; yes | tr -d "\n" | head -c 200000; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 3'
}

@test "ThreadSanitizer finds nothing in step 7" {
    step7_is_clean thread 8
}

# Step 9 has the pipeline of step 8, too. Another division of the ranks continues from their shards.
step9_is_clean() { # SANITIZER SEED
    build_sanitized "$1" "build/${1:0:1}san/"{03_multigpu_launcher/launch,09_tensor/train}
    seq 9000 | head -c 4000 >text
    local step9=("$folder/03_multigpu_launcher/launch" --nproc-per-node 4 --tee "$folder/09_tensor/train" --tensor 2 --batch 24
        --snapshot shards --data text:text --model gpt --layers 1 --heads 2 --width 16 --context 16 --optimizer adam)
    export CPU_DEVICES=4 CPU_DEVICE_CHAOS=$2 CPU_DEVICE_CHECK=1
    clean "${step9[@]}" --epochs 1 --stages 2 --sequence 1 --dropout 0.1
    [ "$(find . -name 'shards.*of4' | wc -l)" = 4 ]
    clean "${step9[@]}" --epochs 2 --stages 1 --overlap 0
    grep -q 'resumed .* 1 epoch ' log
}

@test "AddressSanitizer and UBSan find nothing in step 9" {
    step9_is_clean address,undefined 9
}

@test "ThreadSanitizer finds nothing in step 9" {
    step9_is_clean thread 10
}

tests_are_clean() { # SANITIZER TEST...
    local tests=("${@:2}") test
    build_sanitized "$1" "${tests[@]/#/build/${1:0:1}san/tests/unit/}"
    for test in "${tests[@]}"; do
        clean "$folder/tests/unit/$test"
    done
}

@test "AddressSanitizer and UBSan find nothing in tests of kernels, layers and shards" {
    tests_are_clean address,undefined test_{kernels,image_kernels,sequence_kernels,layers,sharding}
}

# Those in which threads meet: of kernels that threads share, and of parts of a model.
@test "ThreadSanitizer finds nothing in tests of kernels and shards" {
    tests_are_clean thread test_{kernels,sharding}
}
