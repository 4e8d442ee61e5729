#!/usr/bin/env bats
# Tests of make check-gpu in copies of the tree: a run on the CPU device, and planted mistakes that it must find.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

# tests/run.sh runs all unit tests, so the tree has two of them here.
setup_file() {
    # The tests inherit nothing from a make that runs them but the flags of tests/run.sh, whose objects ccache knows.
    unset MAKEFLAGS MFLAGS MAKELEVEL DEVICE CC CFLAGS BUILD
    export CHECK_LIMIT CHECK_TOTAL # more than on a quiet machine, where the checks must keep them
    CHECK_LIMIT=$(patience 120) CHECK_TOTAL=$(patience 480)
    copy_tree "$BATS_FILE_TMPDIR/tree"
    find "$BATS_FILE_TMPDIR/tree/tests/unit" -name 'test_*.c' ! -name test_kernels.c ! -name test_data.c -delete
}

setup() {
    cp -a "$BATS_FILE_TMPDIR/tree" "$BATS_TEST_TMPDIR/tree" && cd "$BATS_TEST_TMPDIR/tree" || return
}

# The first test that needs the programs builds them for all.
need_programs() {
    if [ -e "$BATS_FILE_TMPDIR/build" ]; then
        cp -a "$BATS_FILE_TMPDIR/build" .
    else
        tools/check_gpu.sh cpu 'no check has this name'
        cp -a build "$BATS_FILE_TMPDIR"
    fi
}

# stand_in NAME: puts a script of this name (from stdin) before all other programs.
stand_in() {
    mkdir -p bin
    cat >"bin/$1"
    chmod +x "bin/$1"
    PATH=$PWD/bin:$PATH
}

# finds CHECK REASON: only this check may fail, with this reason in the table, in the report and in a file.
finds() {
    local file
    run tools/check_gpu.sh cpu "$1"
    echo "$output"
    [ "$status" = 1 ]
    grep -qE "^1 passed, 1 failed, 0 skipped in [0-9]+ s; build/check-gpu/report.md " <<<"$output"
    file=$(grep -oE 'report.md build/check-gpu/[0-9]+.txt$' <<<"$output")
    grep -qE "$2" "${file#report.md }"
    sed -n '/^result seconds  check/,$p' <<<"$output" | grep -A 1 -E "^FAIL .* $1" | grep -qE "$2"
    grep -qE "^\| .*$1.* \| FAIL: .*$2" build/check-gpu/report.md
    grep -q '^To report a failure, .* "GPU report"' <<<"$output"
    grep -q '^name: GPU report' .github/ISSUE_TEMPLATE/gpu-report.md
}

@test "all checks pass on the CPU device, and the report is Markdown" {
    need_programs
    run make -s check-gpu DEVICE=cpu
    echo "$output"
    [ "$status" = 0 ]
    [ "$(grep -c '^FAIL' <<<"$output")" = 0 ]
    passed=$(sed -nE 's/^([0-9]+) passed, 0 failed, 1 skipped in .*/\1/p' <<<"$output")
    [ "$passed" -gt 20 ]
    [ "$(sed -n '/^result seconds  check/,$p' <<<"$output" | grep -cE '^ok ')" = "$passed" ]
    for name in 'unit/test_kernels' 'step 1: the same bits after a restart' 'one stops, the watchdog ends the other' \
        'step 5, .* one is killed, both start again' 'step 7 --strategy hybrid, two ranks' 'step 7 --strategy none, 2 GPUs' \
        'step 8 --pipeline 1f1b, two ranks' 'step 8, 2 GPUs' \
        'step 9 --tensor 2, two ranks' 'step 9 --tensor 2, 2 GPUs' \
        'step 6, 2 GPUs: the table' '--overlap 1'; do
        grep -qE -- "^\| .*$name.* \| ok \| [0-9]+ \|$" build/check-gpu/report.md
    done
    run ! grep -E 'test_(nccl|reduce|cpu_device|check\b)' build/check-gpu/report.md # these look into the CPU device
    [[ $(head -n 1 build/check-gpu/report.md) == "## make check-gpu: $passed passed, 0 failed, 1 skipped in "* ]]
    grep -qE '^GPU +none: a trial on the CPU device, which stands for NCCL 2\.' build/check-gpu/report.md
    grep -qE '^epoch 2/2 .* images/s$' build/check-gpu/report.md
    grep -qE '^allreduce .* 262144 ' build/check-gpu/report.md
    [ -z "$(find /proc -maxdepth 2 -name exe -lname "$PWD/*" 2>/dev/null)" ] # nobody is left
}

@test "without a GPU, one line suggests make check-gpu DEVICE=cpu" {
    stand_in nvidia-smi <<<'echo "No devices were found"; exit 6'
    fails 1 "make check-gpu DEVICE=cpu" tools/check_gpu.sh gpu
    run make -s check-gpu
    [ "$status" = 2 ]
    [[ ${lines[0]} == *"make check-gpu DEVICE=cpu"* ]]
    [ ! -e build/check-gpu/report.md ] || ! grep native build/check-gpu/report.md
    fails 2 "usage" tools/check_gpu.sh
}

@test "a build that fails ends the checks" {
    stand_in nvidia-smi <<'SCRIPT'
[ "$1" = -L ] || exec echo "Some GPU, 81559 MiB, 580.00"
printf '%s\n' "GPU 0: Some GPU (UUID: GPU-1)" "  MIG 1g.10gb     Device  0: (UUID: MIG-2)" "  MIG 1g.10gb     Device  1: (UUID: MIG-3)"
SCRIPT
    stand_in nvcc <<<'echo "no such GPU, release 13.0"; exit 1'
    CUDA_HOME=$PWD run tools/check_gpu.sh gpu
    echo "$output"
    [ "$status" = 1 ]
    # Without CUDA's libraries, they are named before the compiler.
    grep -qE '^FAIL .*the programs and unit tests build: error: .*(the C.. compiler here: no such GPU|not found\. ).*exit code 2, build/check-gpu/01.txt' <<<"$output"
    grep -qE '^0 passed, 1 failed, [02] skipped' <<<"$output" # those that compile kernels for the host, where there is no clang
    grep -qxE 'GPU +1 x Some GPU, 81559 MiB, driver 580.00' <<<"$output"
}

# pretend_gpus COUNT: a machine with these GPUs and without the libraries of the CPU device. Make puts a script in the place
# of each program, which writes the right losses. The file misbehave says what else it does.
pretend_gpus() {
    gpus=$1 stand_in nvidia-smi <<'SCRIPT'
case $* in
-L) for gpu in $(seq 0 $((gpus - 1))); do echo "GPU $gpu: Some GPU (UUID: GPU-$gpu)"; done ;;
*compute_mode*) echo "${MODE:-Default}" ;;
*) echo "Some GPU, 16384 MiB, 580.00" ;;
esac
SCRIPT
    export gpus=$1
    stand_in nvcc <<<'echo "release 13.0"'
    stand_in make <<'SCRIPT'
case $* in *DEVICE=cpu*) echo "error: neither oneDNN nor a CBLAS library" && exit 2 ;; esac
for program in 0*/train.c */doctor.c */allreduce.c */launch.c; do
    mkdir -p "build/check-gpu-native/${program%/*}"
    cp fake "build/check-gpu-native/${program%.c}"
done
for test in tests/unit/test_*.c; do
    mkdir -p build/check-gpu-native/tests/unit
    cp fake "build/check-gpu-native/${test%.c}"
done
SCRIPT
    cat >fake <<'SCRIPT'
#!/bin/bash
program=$(basename "$(dirname "$0")")/$(basename "$0")
. ./misbehave
if [ "${0##*/}" = launch ]; then
    until [ "$1" = sh ]; do shift; done
    (RANK=1 "$@") &
    RANK=0 "$@"
    code=$?
    kill -KILL $! 2>/dev/null
    exit $code
fi
[ "${RANK:-0}" = 0 ] || exit 0 # the launcher may kill rank 1 while it writes
while [ $# -gt 0 ]; do
    [ "$1" != --csv ] || cp tools/check_gpu.csv "$2"
    shift
done
SCRIPT
    chmod +x fake
    : >misbehave
}

# checked PATTERN LINE...: these checks end with 0 failures, and these lines are printed.
checked() {
    local line
    run tools/check_gpu.sh gpu "$1"
    for line in "[1-9][0-9]* passed, 0 failed, .*" "${@:2}"; do
        grep -qxE -- "$line" <<<"$output" || { printf '%s\n' "$output" "wanted: $line" && return 1; }
    done
    [ "$status" = 0 ]
}

@test "a GPU is compared with the losses in check_gpu.csv, which step 1 computes on the CPU device" {
    MAKEFLAGS='' need_train
    "$TRAIN" --data synthetic --lr 0.01 --log-every 1 --max-steps 20 --csv now >/dev/null
    same_curve tools/check_gpu.csv now
    pretend_gpus 1
    checked 'losses of the CPU device' 'ok .*step 1: the losses of the CPU device'
    echo 'cp() { sed "s/^7,./7,9/" "$1" >"$2"; }' >misbehave
    run tools/check_gpu.sh gpu 'losses of the CPU device'
    grep -q '^FAIL .*difference is .* (training step 7), ' <<<"$output"
}

@test "where a GPU allows one process, the checks of two ranks on it are skipped" {
    pretend_gpus 1
    MODE=Exclusive_Process checked 'two ranks on one GPU|one rank' \
        'skip .*step 3, two ranks .*: the compute mode is Exclusive_Process; nvidia-smi -c DEFAULT .*' 'ok .*step 6, one rank'
    run ! grep -E '^(ok|FAIL).*two ranks' <<<"$output"
    checked 'two ranks on one GPU: the losses' 'ok .*step 3, two ranks on one GPU: the losses of step 1'
}

@test "where a GPU has no products of bfloat16 matrices, these checks are skipped" {
    pretend_gpus 1
    cat >misbehave <<'SCRIPT'
[[ $program != */train || $* != *bf16* ]] || { echo "error (h): not supported; $said (cublasGemmEx)" >&2 && exit 1; }
SCRIPT
    export said
    said=$(grep -o 'this GPU has no .* matrices' common/device/device.c)
    checked 'step 7 ' "skip .*step 7 in bfloat16, .*: $said" 'ok .*step 7 --strategy none.*'
}

@test "where a display's driver ends kernels that wait, the check of the watchdog is skipped" {
    pretend_gpus 1
    cat >misbehave <<'SCRIPT'
if [ "$program" = 04_multinode/train ]; then
    echo ' step 10/10'
    [ "$RANK" = 0 ] || exec sleep 600
    sleep 1
    echo 'error (h, rank 0): cudaErrorLaunchTimeout: the launch timed out and was terminated'
    exit 1
fi
SCRIPT
    checked 'the watchdog ends' 'skip .*the watchdog ends the other: a display uses this GPU, .*'
}

@test "checks for which no time is left are skipped" {
    pretend_gpus 1
    echo '[ "$program" != 04_multinode/doctor ] || exec sleep 600' >misbehave
    CHECK_TOTAL=$(patience 3)
    checked 'step 4: the doctor|step 1' "skip .*step 4: the doctor: the time limit for all checks, $CHECK_TOTAL s, is over" \
        'skip .*step 1: the accuracy: the time limit .*'
    run ! grep -q '^FAIL' <<<"$output"
}

@test "GPUs that cannot reach each other's memory cost one check, and the others use NCCL_P2P_DISABLE=1" {
    pretend_gpus 2
    cat >misbehave <<'SCRIPT'
case $program in */allreduce | 02_*) [ -n "$NCCL_P2P_DISABLE" ] || exec sleep 600 ;; esac
SCRIPT
    CHECK_LIMIT=$(patience 2) run tools/check_gpu.sh gpu 'step [26], 2 GPUs: (all|the losses)'
    [ "$status" = 1 ]
    [ "$(grep -c '^FAIL ' <<<"$output")" = 2 ] # in the list and in the table
    grep -q '^FAIL .*step 6, 2 GPUs: all operations: .*too long' <<<"$output"
    grep -qE '^ok .*step 6, 2 GPUs: all operations with NCCL_P2P_DISABLE=1, as all checks' <<<"$output"
    grep -qE '^ok .*step 2, 2 GPUs: the losses of step 1' <<<"$output"
}

@test "compute-sanitizer's reports about cuBLAS and NCCL are no failures, and those about the course's kernels are" {
    pretend_gpus 1
    stand_in compute-sanitizer <<'SCRIPT'
case $* in
*racecheck*) echo "Error: Race reported between Write access at $KERNEL(float *)+0x5a0 and Read access" ;;
*bf16*) case $* in *"--report-api-errors no"*) ;; *) exit 9 ;; esac ;;
esac
SCRIPT
    export KERNEL='cutlass::Kernel2'
    checked compute-sanitizer 'ok .*racecheck, step 1' 'ok .*memcheck, step 7 in bfloat16'
    KERNEL=sum_rows_kernel run tools/check_gpu.sh gpu compute-sanitizer
    grep -q '^FAIL .*racecheck, step 1: Error: Race .* sum_rows_kernel' <<<"$output"
    [ "$(grep -c '^FAIL ' <<<"$output")" = 2 ]
}

@test "check_gpu.sh finds a wrong loss" {
    need_programs
    edit 03_multigpu_launcher/train.c 's|1\.f / opt\.batch|1.00001f / opt.batch|'
    finds 'step 3, 2 GPUs: the losses' 'the largest relative difference is [0-9.e-]+ \(training step [0-9]+\), the limit is 1e-05'
}

@test "check_gpu.sh finds a watchdog that does nothing" {
    need_programs
    edit 04_multinode/train.c 's|^    start_watchdog\(.*|    start_watchdog(1e6, 1e6);|'
    CHECK_LIMIT=$(patience 20)
    finds 'watchdog ends the other' 'no rank reported that --step-timeout is over'
}
