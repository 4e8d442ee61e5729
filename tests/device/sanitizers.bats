#!/usr/bin/env bats
# bats file_tags=test-all
# The trainers and the CPU device's own tests under AddressSanitizer, UBSan and ThreadSanitizer, and under
# random delays of every operation. Two threads share each kernel, even on one core.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    # Images as large as those of MNIST, but fewer than --data synthetic makes.
    images=$BATS_FILE_TMPDIR/images
    cp -r "$BATS_FILE_TMPDIR/tiny" "$images"
    for split in train:3968 t10k:100; do
        { idx_header ${split#*:} 28 28 && seq -f %0784.0f ${split#*:} | tr -d '\n'; } >"$images/${split%:*}-images-idx3-ubyte"
    done
    { idx_header 3968 && seq 3968 | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } >"$images/train-labels-idx1-ubyte"
    need_train
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    export OMP_NUM_THREADS=2
}

# clean COMMAND...: the command must end with 0 and without a report. Address randomisation is off, because ThreadSanitizer
# fails with some kernels' setting.
clean() {
    timeout "$(patience 300)" setarch -R "$@" >log 2>&1 || { echo "status $?: $*" && cat log && return 1; }
    ! grep -E 'Sanitizer|runtime error|WARNING' log
}

each_clean() { # COMMAND...
    local command
    for command; do
        clean "$command" || return
    done
}

# Trains whole epochs with evaluation and snapshots, resumes a run, and trains a model whose products the threads share.
train_all() { # PROGRAM CSV
    local tiny=(--data "$BATS_FILE_TMPDIR/tiny" --hidden "33,20" --batch 64 --log-every 3)
    rm -f snapshot
    clean "$1" "${tiny[@]}" --epochs 2 --snapshot snapshot --csv "$2"
    clean "$1" "${tiny[@]}" --epochs 3 --snapshot snapshot --csv "$2"
    grep -q '^resumed .* 2 epochs' log
    clean "$1" --data "$BATS_FILE_TMPDIR/images" --hidden 256 --max-steps 30 --log-every 10 --csv "$2.images"
    grep -q 'step 30/' log
}

# Prints the losses of a CSV file, without the seconds.
losses() {
    cut -d, -f1-6 "$1" "$1.images"
}

same_losses_in_chaos() { # PROGRAM SEED...
    train_all "$1" calm
    [ "$(losses calm | wc -l)" = 20 ]
    for seed in "${@:2}"; do
        CPU_DEVICE_CHAOS=$seed train_all "$1" chaos
        diff <(losses calm) <(losses chaos)
    done
}

@test "AddressSanitizer finds nothing in the launcher and its ranks" {
    build_sanitized address,undefined build/asan/03_multigpu_launcher/launch build/asan/03_multigpu_launcher/train
    launch=$folder/03_multigpu_launcher/launch
    export CPU_DEVICES=3 NCCL_SOCKET_IFNAME=lo TMPDIR=$PWD
    clean "$launch" --nproc-per-node 3 --tee "$folder/03_multigpu_launcher/train" --data "$BATS_FILE_TMPDIR/tiny" \
        --hidden 33,20 --batch 63 --epochs 2 --snapshot snapshot
    # shellcheck disable=SC2016 # expanded by the ranks
    clean "$launch" --nproc-per-node 2 --tee --log-dir logs --max-restarts 2 sh -c 'seq 30000; seq 30000 >&2
        printf unfinished; yes | tr -d "\n" | head -c 200000; [ $TORCHELASTIC_RESTART_COUNT = 2 ] || exit 3'
}

@test "random delays change no loss" {
    same_losses_in_chaos "$TRAIN" 1 2 3
}

@test "AddressSanitizer and UBSan find nothing in the trainer" {
    build_sanitized address,undefined build/asan/01_single_gpu/train
    same_losses_in_chaos "$folder/01_single_gpu/train" 4
}

@test "ThreadSanitizer finds nothing in the trainer" {
    build_sanitized thread build/tsan/01_single_gpu/train
    same_losses_in_chaos "$folder/01_single_gpu/train" 5
}

@test "AddressSanitizer and UBSan find nothing in the CPU device's tests" {
    build_sanitized address,undefined build/asan/tests/device/test_{cpu_device,check,cublas}
    clean "$folder/tests/device/test_cpu_device"
    clean "$folder/tests/device/test_check"
    clean "$folder/tests/device/test_cublas"
}

@test "ThreadSanitizer finds nothing in the CPU device's tests" {
    build_sanitized thread build/tsan/tests/device/test_{cpu_device,check,cublas}
    TSAN_OPTIONS=die_after_fork=0 clean "$folder/tests/device/test_cpu_device"
    # A fault of the program's own is explained in a handler, with what handlers may not use, before the end.
    TSAN_OPTIONS="die_after_fork=0 atexit_sleep_ms=0 report_signal_unsafe=0" clean "$folder/tests/device/test_check"
    clean "$folder/tests/device/test_cublas"
}

# The kernels of the CPU device and all kinds of layers, with parts of batches too.
layers_clean() {
    local test
    for test in kernels image_kernels image_models image_layers image_layers_in_parts; do
        clean "$folder/tests/unit/test_$test"
    done
}

@test "AddressSanitizer and UBSan find nothing in the tests of kernels and layers" {
    build_sanitized address,undefined build/asan/tests/unit/test_{kernels,image_{kernels,models,layers,layers_in_parts}}
    layers_clean
}

@test "ThreadSanitizer finds nothing in the tests of kernels and layers" {
    build_sanitized thread build/tsan/tests/unit/test_{kernels,image_{kernels,models,layers,layers_in_parts}}
    layers_clean
}

# Runs two ranks without the second that ThreadSanitizer sleeps at every exit.
step2_in_chaos() { # SEED
    CPU_DEVICES=2 NCCL_SOCKET_IFNAME=lo TSAN_OPTIONS=atexit_sleep_ms=0 \
        same_losses_in_chaos "$folder/02_multigpu_fork/train" "$1"
}

@test "AddressSanitizer and UBSan find nothing in step 2" {
    build_sanitized address,undefined build/asan/02_multigpu_fork/train
    step2_in_chaos 6
}

@test "ThreadSanitizer finds nothing in step 2" {
    build_sanitized thread build/tsan/02_multigpu_fork/train
    step2_in_chaos 7
}

# Runs three ranks with many options of step 7. Then another number of ranks continues from their shards.
step7_in_chaos() { # SEED
    local step7=("$folder/07_large_models/train" --data "$BATS_FILE_TMPDIR/tiny" --hidden "33,20,9" --batch 60 --snapshot shards)
    local launch=${TRAIN%/01_single_gpu/train}/03_multigpu_launcher/launch
    export CPU_DEVICES=3 NCCL_SOCKET_IFNAME=lo TSAN_OPTIONS=atexit_sleep_ms=0 CPU_DEVICE_CHAOS=$1 CPU_DEVICE_CHECK=1
    clean "$launch" --nproc-per-node 3 "${step7[@]}" --epochs 1 --optimizer adam --accumulate 2 --recompute 1 \
        --unit-bytes 3000 --clip 0.5
    [ "$(find . -name 'shards.*of3' | wc -l)" = 3 ]
    clean "$launch" --nproc-per-node 2 "${step7[@]}" --epochs 2 --optimizer adam --strategy grad --precision bf16 \
        --save full
    grep -q '^resumed .* 1 epoch ' log
    [ "$(find . -name 'shards*')" = ./shards ]
}

@test "AddressSanitizer and UBSan find nothing in step 7" {
    build_sanitized address,undefined build/asan/07_large_models/train
    step7_in_chaos 8
}

@test "ThreadSanitizer finds nothing in step 7" {
    build_sanitized thread build/tsan/07_large_models/train
    step7_in_chaos 9
}

# Both sanitizers run at the same time, because the tests mostly wait for dead ranks. The leak check is off: it stops
# threads in a way that conflicts with SIGCONT in one of the tests.
@test "AddressSanitizer, UBSan and ThreadSanitizer find nothing in NCCL's tests" {
    local tests races=0
    mapfile -t tests < <(cd "$root" && find tests/device -name 'test_nccl_*.c' ! -name '*large*')
    tests=("${tests[@]%.c}")
    build_sanitized address,undefined "${tests[@]/#/build/asan/}"
    mkdir asan
    (cd asan && ASAN_OPTIONS=detect_leaks=0 each_clean "${tests[@]/#/$folder/}") 3>&- &
    build_sanitized thread "${tests[@]/#/build/tsan/}"
    TSAN_OPTIONS="die_after_fork=0 atexit_sleep_ms=0" each_clean "${tests[@]/#/$folder/}" || races=1
    wait $!
    [ $races = 0 ]
}
