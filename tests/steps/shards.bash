# What the tests of sharded snapshots share. program is the trainer under test, such as 05_fsdp/train; its file calls
# prepare_shards in setup_file.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

# prepare_shards [PROGRAM...]: builds the trainer, the programs that load or save the same snapshots, and the copy with
# watch.c, and saves the shards of four undisturbed ranks.
prepare_shards() {
    need_train 02_multigpu_fork/train 03_multigpu_launcher/train 03_multigpu_launcher/launch 04_multinode/train \
        "$program" "$@"
    tiny_data "$BATS_FILE_TMPDIR/tiny"
    set_variables
    compile_watched "$killed" "$sharded.o"
    cat >"$killed_once" <<END
#!/usr/bin/env bash
[ \$TORCHELASTIC_RESTART_COUNT = 0 ] || unset KILL_AT
exec $killed "\$@"
END
    chmod +x "$killed_once"
    mkdir "$right"
    train 4 --snapshot "$right/s"
}

set_variables() {
    unset_job
    export NCCL_SOCKET_IFNAME=lo CPU_DEVICES=4 OMP_NUM_THREADS=1
    set_build
    launch=$build/03_multigpu_launcher/launch
    sharded=$build/$program
    killed=$BATS_FILE_TMPDIR/killed           # $sharded with watch.c
    killed_once=$BATS_FILE_TMPDIR/killed_once # the same, in the first attempt only
    compiler=compile_watched
    right=$BATS_FILE_TMPDIR/right             # shards of four undisturbed ranks at the end
    right_whole=$BATS_FILE_TMPDIR/right_whole # the same in one file, if the program has --save full
    # Four units, with padding at two, three and four ranks.
    options=(--data "$BATS_FILE_TMPDIR/tiny" --hidden "9,3,7" --batch 120 --optimizer adam --epochs 3)
}

setup() {
    pid='' pids=()
    mkdir "$BATS_TEST_TMPDIR/work" "$BATS_TEST_TMPDIR/meet" && cd "$BATS_TEST_TMPDIR/work" && mkdir now || return
    set_variables
    export TMPDIR=$BATS_TEST_TMPDIR/meet
}

# Ends the processes that a failed test has left.
teardown() {
    {
        [ -z "$pid" ] || kill -9 -- -"$pid" || true
        [ ${#pids[@]} = 0 ] || kill -9 "${pids[@]}" || true
    } 2>/dev/null
}

launch_tiny() { # RANKS PROGRAM OPTION...
    timeout 60 "$launch" --nproc-per-node "$1" "$2" "${options[@]}" "${@:3}"
}

train() { # RANKS OPTION...
    launch_tiny "$1" "$sharded" "${@:2}"
}

# A busy machine needs more time, but far less than the ranks would wait for each other.
job_ends() { # CODE
    until_true 20 has_ended "$pid"
    ends "$1"
}

# The other ranks must have noticed the dead rank in a collective.
others_end() { # RANK
    local other
    for other in 0 1 2 3; do
        [ "$other" != "$1" ] || continue
        ranks_end 10 1 "$other" || return
        rank_says "$other" ".*rank $1 \(pid ${pids[$1]} on $(hostname)\) has ended.* \(step [0-9]+, collective [0-9]+, nccl[A-Za-z]+ at " ||
            return
    done
}

# The snapshot in now must have this number of epochs (a pattern), and a run from it must end with the right bits.
goes_on_from() { # EPOCHS OPTION...
    train 4 --snapshot now/s "${@:2}" >resumed || return
    grep -qE "^resumed   now/s: $1 epochs? and [0-9]+ steps?" resumed || { cat resumed && return 1; }
    if [ "${3:-}" = full ]; then diff -r "$right_whole" now; else diff -r "$right" now; fi
}

# Prints the names of the files in a folder, without the part that differs between runs.
files() { # FOLDER
    find "$1" -type f -printf '%f\n' | sed -E 's/u[0-9a-f]{8}\./u./' | sort | xargs
}

# becomes WHOLE FROM COMMAND...: a run with nothing left to do must turn the snapshot in FROM into the one in WHOLE.
becomes() {
    rm -rf now
    cp -r "$2" now
    "${@:3}" --max-steps 7 --snapshot now/s >out || return
    grep -qx 'resumed   now/s: 1 epoch and 2 steps are done; nothing is left to do' out || return
    diff -r "$1" now || { echo "after: ${*:3}" && return 1; }
}

# comes_through PLACE EPOCHS OPTION...: kills one of four ranks at this place. The run must continue from this number of
# epochs, or from the start (new).
comes_through() {
    KILL_AT="$1 9" timeout 60 "$launch" --nproc-per-node 4 --max-restarts 1 "$killed_once" "${options[@]}" \
        --snapshot now/s "${@:3}" >out 2>err || { echo "killed at $1" && cat err && return 1; }
    restarted 1 || return
    epochs=$(sed -n 's/^resumed   now\/s: \([0-9]*\) epochs\? and 0 steps are done.*/\1/p' out)
    [[ ${epochs:-new} =~ ^($2)$ ]] || { echo "killed at $1: goes on from ${epochs:-new}" && return 1; }
}

# all_come_through WHOLE OPTION...: reads lines "RANK FUNCTION NTH EPOCHS", and kills at each of these places. Each run must
# end with the snapshot in WHOLE.
all_come_through() {
    local rank function nth epochs
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        comes_through "$rank $function $nth" "$epochs" "${@:2}" || return
        diff -r "$1" now || { echo "after: $rank $function $nth" && return 1; }
    done
}

# all_are_noticed: reads such lines. Without a launcher, the other ranks must end, and the snapshot must be complete.
all_are_noticed() {
    local rank function nth epochs
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        KILL_AT="$rank $function $nth 9" start_ranks 4 "$killed" --snapshot now/s
        ranks_end 10 137 "$rank" || return
        others_end "$rank" || return
        goes_on_from "$epochs" || return
    done
}

# Rank 2 stops before its shard of the first epoch has its name, so the manifest must name the shards before.
waits_for_shards() { # PROGRAM
    rm -rf now && mkdir now
    KILL_AT="2 rename 2 19" start_ranks 4 "$1" --snapshot now/s --step-timeout 1
    ranks_end 15 1 0 1 3 || return
    kill -9 "${pids[2]}"
    [[ $(files now) == *"s.e1s0u.0of4 s.e1s0u.1of4 s.e1s0u.2of4.tmp s.e1s0u.3of4" ]] || return
    goes_on_from 0
}

# kills_at_random COUNT SEED OPTION...: kills three of the ranks, with random delays if there is a seed. The run must end
# with the same bits as an undisturbed run.
kills_at_random() {
    local attempt epochs
    rm -rf now undisturbed && mkdir now undisturbed
    # shellcheck disable=SC2086 # no variable without a seed
    start env ${2:+CPU_DEVICE_CHAOS=$2} "$launch" --nproc-per-node "$1" --max-restarts 100 "$sharded" \
        "${options[@]}" --epochs 1000000 --snapshot now/s "${@:3}"
    for attempt in 0 1 2; do
        until_true 20 find_ranks "$1" $attempt || return
        sleep "$(printf 0.%03d $((RANDOM % 150)))"
        kill -9 "${ranks[RANDOM % $1]}"
    done
    until_true 20 await_signals "$1" 3 || return
    kill -USR1 "$pid"
    job_ends 0 || return
    restarted 3 || return
    train "$1" --epochs 1000000 --max-steps 1 --snapshot now/s "${@:3}" >out || return
    epochs=$(sed -n 's/^resumed   now\/s: \([0-9]*\) .*/\1/p' out)
    echo "$epochs epochs"
    train "$1" --epochs "$epochs" --save-every 1000000 --snapshot undisturbed/s "${@:3}" >out || return
    diff -r undisturbed now
}

# A folder takes the place of a shard, after the first or after the last epoch.
shard_cannot_be_written() {
    local shard name
    shard=$(cd "$right" && echo s.*.2of4)
    for name in "${shard/e3/e1}" "$shard"; do
        rm -rf now && mkdir -p "now/$name.tmp"
        start_ranks 4 "$sharded" --snapshot now/s
        ranks_end 10 1 2 || return
        rank_says 2 "cannot write snapshot now/$name: Is a directory$" || return
        others_end 2 || return
        rmdir "now/$name.tmp"
        goes_on_from "$([ "$name" = "$shard" ] && echo 2 || echo 0)" || return
    done
}

# A folder takes the place of the manifest or of the one file, so only rank 0 fails.
manifest_cannot_be_written() { # OPTION...
    local rank
    rm -rf now && mkdir now
    train 4 --epochs 2 --snapshot now/s "$@" || return
    mkdir now/s.tmp
    start_ranks 4 "$sharded" --snapshot now/s --save-every 100 "$@"
    ranks_end 10 1 0 || return
    rank_says 0 "cannot write snapshot now/s: Is a directory$" || return
    for rank in 1 2 3; do
        until_true 10 has_ended "${pids[rank]}" || return
    done
    rmdir now/s.tmp
    goes_on_from 2 "$@"
}

# stops_at_signals FILES OPTION...: after a signal, the run must leave this number of files, and the next run must end with
# the same bits.
stops_at_signals() {
    local signal place steps
    for signal in 10 15; do
        for place in "1 ncclReduceScatter 9" "2 ncclReduceScatter 26"; do
            rm -rf now && mkdir now
            KILL_AT="$place $signal" launch_tiny 4 "$killed" --log-every 1 --snapshot now/s "${@:2}" >out 2>err || return
            drop_pids err
            [ ! -s err ] || return
            grep -qx "told to stop by a signal; saved" out || return
            steps=$(sed -nE 's/^stopped after step ([0-9]+)$/\1/p' out)
            [ "$steps" -gt 2 ] || return
            [ "$(find now -type f | wc -l)" = "$1" ] || return
            goes_on_from '[01]' "${@:2}" || return
            [ "$(awk '/^resumed/ { print 5 * $3 + $6 }' resumed)" = "$steps" ] || return
        done
    done
}
