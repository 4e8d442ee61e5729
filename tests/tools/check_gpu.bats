#!/usr/bin/env bats
# Tests of make check-gpu in copies of the tree: a run on the CPU device, and planted mistakes that it must find.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    # The tests inherit nothing from a make that runs them. Half of their time would be compilation with -O3.
    unset MFLAGS MAKELEVEL DEVICE CC CFLAGS BUILD WERROR
    export MAKEFLAGS=CFLAGS=-O1
    copy_tree "$BATS_FILE_TMPDIR/tree"
    export CHECK_LIMIT CHECK_TOTAL # more than on a quiet machine, where the checks must keep them
    CHECK_LIMIT=$(patience 120) CHECK_TOTAL=$(patience 480)
}

setup() {
    cp -a "$BATS_FILE_TMPDIR/tree" "$BATS_TEST_TMPDIR/tree" && cd "$BATS_TEST_TMPDIR/tree" || return
}

# The first test that needs the programs builds them for all.
need_programs() {
    if [ ! -e "$BATS_FILE_TMPDIR/tree/build" ]; then
        "$BATS_FILE_TMPDIR/tree/tools/check_gpu.sh" cpu 'no check has this name'
    fi
    cp -a "$BATS_FILE_TMPDIR/tree/build" .
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
    grep -qE "^2 passed, 1 failed, 0 skipped in [0-9]+ s; build/check-gpu/report.md " <<<"$output"
    file=$(grep -oE 'report.md build/check-gpu/[0-9]+.txt$' <<<"$output")
    grep -qE "$2" "${file#report.md }"
    sed -n '/^result seconds  check/,$p' <<<"$output" | grep -A 1 -E "^FAIL .* $1" | grep -qE "$2"
    grep -qE "^\| .*$1.* \| FAIL: .*$2" build/check-gpu/report.md
    grep -q '^To report a failure, .* "GPU report"' <<<"$output"
    grep -q '^name: GPU report' .github/ISSUE_TEMPLATE/gpu-report.md
}

# bats test_tags=test-all
@test "all checks pass on the CPU device, and the report is Markdown" {
    run make -s check-gpu DEVICE=cpu
    echo "$output"
    [ "$status" = 0 ]
    [ "$(grep -c '^FAIL' <<<"$output")" = 0 ]
    passed=$(sed -nE 's/^([0-9]+) passed, 0 failed, 1 skipped in .*/\1/p' <<<"$output")
    [ "$passed" -gt 30 ]
    [ "$(sed -n '/^result seconds  check/,$p' <<<"$output" | grep -cE '^ok ')" = "$passed" ]
    for name in 'unit/test_kernels' 'step 1: the same bits after a restart' 'one stops, the watchdog ends the other' \
        'step 5, .* one is killed, both start again' 'step 7 --strategy hybrid, two ranks' 'step 7 --strategy none, 2 GPUs' \
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
    grep -qE '^FAIL .*the programs and unit tests build: .*exit code 2, build/check-gpu/01.txt' <<<"$output"
    grep -qE '^0 passed, 1 failed, [02] skipped' <<<"$output" # those that compile kernels for the host, where there is no clang
    grep -qxE 'GPU +1 x Some GPU, 81559 MiB, driver 580.00' <<<"$output"
}

# bats test_tags=test-all
@test "check_gpu.sh finds a wrong loss" {
    need_programs
    edit 03_multigpu_launcher/train.c 's|1\.f / opt\.batch|1.00001f / opt.batch|'
    finds 'step 3, 2 GPUs: the losses' 'the largest relative difference is [0-9.e-]+ \(training step [0-9]+\), the limit is 1e-05'
}

# bats test_tags=test-all
@test "check_gpu.sh finds snapshots that differ" {
    need_programs
    edit 01_single_gpu/train.c 's|^    if \(snapshot_save\(opt.snapshot|    s->values[0] = (float)device_seconds(t->stream);\n&|'
    finds 'step 1: the same bits in a second run' 'first .*second differ: '
}

# bats test_tags=test-all
@test "check_gpu.sh finds a watchdog that does nothing" {
    need_programs
    edit 04_multinode/train.c 's|^    start_watchdog\(.*|    start_watchdog(1e6, 1e6);|'
    CHECK_LIMIT=$(patience 20)
    finds 'watchdog ends the other' 'no rank reported that --step-timeout is over'
}

# bats test_tags=test-all
@test "check_gpu.sh finds ranks that do not restart from their snapshot" {
    need_programs
    edit 03_multigpu_launcher/train.c 's|(t->resumed = )(snapshot_load\()|\10 \&\& \2|'
    finds 'step 3, two ranks on one GPU: one is killed' 'the ranks did not start again|differ: '
    [ "$SECONDS" -lt "$CHECK_LIMIT" ] # they train for ever
}
