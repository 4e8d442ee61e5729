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
