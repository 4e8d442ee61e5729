#!/usr/bin/env bats
# Options that work alone may fail together. pairs.py chooses runs, so that each pair of values of two options is in one.
# bats file_tags=test-all
# shellcheck disable=SC2154 # helpers.bash sets the variables
load ../helpers

setup_file() {
    need_train 03_multigpu_launcher/launch 07_large_models/train
    command -v python3 >/dev/null || skip "python3 is not installed"
}

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset_job
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=3 OMP_NUM_THREADS=1
    set_build
    tiny_data images 480 40 12 12
    seq 9000 | head -c 9000 >text
    echo word >token
    chmod 600 token
}

# run_pairs TRAINER: each run ends well, and continues from its snapshot.
run_pairs() {
    local words command
    "$build/$1" --help | python3 -B "$root/tests/steps/pairs.py" >runs
    [ "$(wc -l <runs)" -gt 15 ]
    while read -ra words; do
        command=("$build/03_multigpu_launcher/launch" --nproc-per-node "${words[0]}" "$build/$1" "${words[@]:1}")
        [[ $1 != 01_* ]] || command=("$build/$1" "${words[@]:1}")
        rm -f s s.*
        timeout 60 "${command[@]}" >out 2>err || { echo "failed: ${command[*]}" && cat out err && return 1; }
        timeout 60 "${command[@]}" --max-steps 5 >out 2>err || { echo "cannot continue: ${command[*]}" && cat out err && return 1; }
        grep -q '^resumed   s: 0 epochs and 3 steps are done$' out
        [ "$(grep -c '^note .*differs' out)" = 0 ]
    done <runs
}

@test "each pair of values of two options of step 1 works" {
    run_pairs 01_single_gpu/train
}

@test "each pair of values of two options of step 7 works" {
    run_pairs 07_large_models/train
}
