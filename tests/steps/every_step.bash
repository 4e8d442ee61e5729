# shellcheck shell=bash
# For tests that run any step on tiny images. A file can set more_options for all of its runs and more_programs, and declare
# two functions: prepare for what all of its tests need, and adjust to change variables before each test.

setup_file() {
    need_train {02_multigpu_fork,03_multigpu_launcher,04_multinode,05_fsdp,07_large_models,08_pipeline,09_tensor}/train \
        {03_multigpu_launcher,04_multinode}/launch "${more_programs[@]}"
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    seq 9000 | head -c 10700 >"$BATS_FILE_TMPDIR/tiny_text" # 601 sequences of 16 tokens
    set_variables
    ! declare -F prepare >/dev/null || prepare
}

set_variables() {
    unset NCCL_HOSTID CPU_DEVICE_CHAOS CPU_DEVICE_CHECK CPU_DEVICE_MEMORY
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1
    set_build
    launch=$build/03_multigpu_launcher/launch
    tiny=$BATS_FILE_TMPDIR/tiny
    # The smallest transformer in which each kind of layer has something to do.
    gpt="--data text:$BATS_FILE_TMPDIR/tiny_text --model gpt --layers 1 --width 32 --heads 2 --context 16"
    options=(--data "$tiny" --hidden "32,22,14" --batch 120 --epochs 4 --log-every 1 "${more_options[@]}")
    ! declare -F adjust >/dev/null || adjust
}

setup() {
    pid='' pids=()
    mkdir "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/meet" && cd "$BATS_TEST_TMPDIR/work" || return
    set_variables
    export TMPDIR=$BATS_TEST_TMPDIR/meet
}

# Ends the processes that a failed test has left.
teardown() {
    end_job
}

end_job() {
    [ -z "$pid" ] || kill -9 -- -"$pid" 2>/dev/null || true
    end_ranks
}

end_ranks() {
    {
        [ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}" || true
        wait "${pids[@]}" || true
    } 2>/dev/null
    pids=()
}

program_of() { # STEP
    echo "$build"/0"$1"_*/train
}

# watched STEP: prints the path of the step's program with watch.c, and builds it at the first call.
watched() {
    local path=$BATS_FILE_TMPDIR/watched$1
    [ -x "$path" ] || compile_watched "$path" "$(program_of "$1").o" || return
    echo "$path"
}

# killable_once STEP: prints the path of a program that is watched in the first attempt of a launcher only.
killable_once() {
    local path=$BATS_FILE_TMPDIR/killable_once$1 program
    program=$(watched "$1") || return
    cat >"$path" <<SCRIPT
#!/usr/bin/env bash
[ \$TORCHELASTIC_RESTART_COUNT = 0 ] || unset KILL_AT
exec $program "\$@"
SCRIPT
    chmod +x "$path"
    echo "$path"
}

# killed_once STEP RANKS PLACE OPTION...: starts the ranks, one of which is killed at the place (see watched), in the first
# attempt only. The launcher must restart them once, and the run must end well.
killed_once() {
    local program
    program=$(killable_once "$1") || return
    KILL_AT="$3 9" timeout "$(patience 60)" "$launch" --nproc-per-node "$2" --max-restarts 1 "$program" \
        "${options[@]}" "${@:4}" >out 2>err || { echo "killed at $3" && cat err && return 1; }
    restarted 1
}

# all_come_through STEP RANKS OPTION...: reads lines such as "RANK FUNCTION NTH|EPOCHS", and kills a rank at each of these
# places. The run must continue from this number of epochs (a pattern), or from the start (new), and end with the snapshot in
# the folder right.
all_come_through() {
    local place epochs found
    while IFS='|' read -r place epochs; do
        rm -rf now && mkdir now
        killed_once "$1" "$2" "$place" --snapshot now/s "${@:3}" || return
        found=$(sed -n 's/^resumed   now\/s: \([0-9]*\) epochs\? and [0-9]* steps are done.*/\1/p' out)
        [[ ${found:-new} =~ ^(${epochs:-.*})$ ]] || { echo "killed at $place: goes on from ${found:-new}" && return 1; }
        diff -r "${right:-right}" now || { echo "killed at $place" && return 1; }
    done
}

train() {
    run_step "$@"
}

# run_step STEP RANKS OPTION...: a program of that number with so many ranks, and with random delays if there is a seed in
# delays. The time limit only ends a run that hangs. program names another program for this step.
run_step() {
    local command
    set_command "$@"
    env ${delays:+CPU_DEVICE_CHAOS=$delays} timeout "$(patience 60)" "${command[@]}" >out 2>err || { cat err && return 1; }
}

set_command() { # STEP RANKS OPTION...
    command=("${program:-$(program_of "$1")}" "${options[@]}" "${@:3}")
    case $1 in
    1) ;;
    2) command+=(--nproc "$2") ;;
    *) command=("$launch" --nproc-per-node "$2" "${command[@]}") ;;
    esac
}

# costs_agree [KIND BYTES]: in the table in out, the measured bytes must be the computed ones, and in the row KIND, these.
# cost_rows is the number of its rows, if it is not the table of step 7.
costs_agree() {
    awk -v kind="${1:-none}" -v bytes="${2-}" -v wanted="${cost_rows:-7}" '
        $1 == "costs" { table = 1; next }
        table && $2 != "computed" && $1 != "FLOPs" {
            rows++
            at = $2 == "/" ? 4 : 2 # such as sent / step
            wrong += $at != $(at + 1)
            if ($1 == kind && $at != bytes) { print; print "wanted " bytes; wrong++ }
        }
        END { exit wrong || rows != wanted }' out || { cat out && return 1; }
}

# nodes COUNT RANKS PROGRAM OPTION...: runs the program on this number of simulated nodes, with RANKS ranks each. The output
# of node 0 is in out, too. restarts is the number of restarts that are allowed.
nodes() {
    local node port status=0 jobs=()
    port=$(free_port)
    for ((node = 0; node < $1; node++)); do
        NCCL_HOSTID=node$node timeout "$(patience 60)" "$build/04_multinode/launch" --nnodes "$1" --node-rank $node --nproc-per-node "$2" \
            --master-port "$port" --max-restarts "${restarts:-0}" "$3" "${options[@]}" "${@:4}" >out.$node 2>err.$node 3>&- &
        jobs+=($!)
    done
    for node in "${jobs[@]}"; do
        wait "$node" || status=1
    done
    cp out.0 out
    [ $status = 0 ] || tail -n 5 err.*
    return $status
}
