#!/usr/bin/env bats
# Tests of the snapshots of steps 5 and 7: any number of ranks and any step loads shards with the same bits, and after any
# failure of a rank or a disk, the run can continue from a snapshot. Step 7 saves the
# same bytes as step 5, unless an option asks for something else.
# shellcheck disable=SC2046,SC2086,SC2206 # options are lists of words
load ../helpers
load every_step
more_options=(--hidden "9,3,7" --optimizer adam --epochs 3 --log-every 100) # four units, with padding at 2, 3 and 4 ranks

# Saves what four undisturbed ranks save at the end: shards, and one file.
prepare() {
    right=$BATS_FILE_TMPDIR/right
    cd "$BATS_FILE_TMPDIR" || return
    mkdir right right_whole
    train 5 4 --snapshot right/s
    train 7 4 --save full --snapshot right_whole/s
}

clear_now() {
    rm -rf now && mkdir now
}

right() { # OPTION...
    [[ $* == *"--save full"* ]] && echo "$BATS_FILE_TMPDIR/right_whole" || echo "$BATS_FILE_TMPDIR/right"
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
goes_on_from() { # EPOCHS STEP OPTION...
    train "$2" 4 --snapshot now/s "${@:3}" || return
    grep -qE "^resumed   now/s: $1 epochs? and [0-9]+ steps?" out || { cat out && return 1; }
    diff -r "$(right "${@:3}")" now
}

# Prints the names of the files in a folder, without the part that differs between runs.
files() { # FOLDER
    find "$1" -type f -printf '%f\n' | sed -E 's/u[0-9a-f]{8}\./u./' | sort | xargs
}

# becomes WHOLE FROM STEP RANKS OPTION...: a run with nothing left to do must turn the snapshot in FROM into the one in
# WHOLE.
becomes() {
    rm -rf now
    cp -r "$2" now
    train "${@:3}" --max-steps 7 --snapshot now/s || return
    grep -qx "resumed   now/s: 1 epoch and 2 steps are done; $(text_of NOTHING_LEFT)" out || return
    diff -r "$1" now || { echo "after: ${*:3}" && return 1; }
}

# Saves after seven steps: shards of four ranks in four, and one file in whole.
save_four_and_whole() {
    mkdir four whole
    train 5 4 --max-steps 7 --snapshot four/s
    train 7 4 --max-steps 7 --save full --snapshot whole/s
}

@test "any step, number of ranks, strategy and units loads shards and saves the same bytes" {
    save_four_and_whole
    [ "$(files four)" = "s s.e1s2u.0of4 s.e1s2u.1of4 s.e1s2u.2of4 s.e1s2u.3of4" ]
    [ "$(files whole)" = s ]
    cp -r four three
    train 5 3 --max-steps 7 --snapshot three/s
    # Units of two layers, units of three layers and one, and one unit of all layers.
    for bytes in 460 600 10000; do
        cp -r four units$bytes
        train 7 4 --max-steps 7 --unit-bytes $bytes --snapshot units$bytes/s
        [ "$(files units$bytes)" = "$(files four)" ]
        run ! cmp -s units$bytes/s four/s
    done
    # bfloat16 rounds the gathered parameters, but not the saved ones. The file names the precision.
    cp -r four rounded
    train 7 4 --max-steps 7 --precision bf16 --snapshot rounded/s
    run ! diff -r four rounded
    while read -r to from how; do
        becomes $to $from $how
    done <<'ROWS'
four whole 5 4
whole units600 7 3 --save full --unit-bytes 460
four units10000 5 4
three whole 5 3
whole three 1 1
whole units460 2 2
whole four 7 4 --strategy none
four rounded 7 4
ROWS
}

# A run saves before it starts and after each epoch. For a save, each rank calls rename once and fsync twice. Rank 0 does
# the same for the manifest, and then removes the four old files. A training step has 8 all-gathers, 4 reduce-scatters
# and in step 7 4 all-reduces. An epoch has five training steps, then 4 all-gathers and 2 all-reduces (step 7: 3), and two
# all-reduces for the save.
@test "a rank killed while it saves, gathers or scatters is restarted, and the result is the same" {
    right=$BATS_FILE_TMPDIR/right all_come_through 5 4 <<'END'
3 rename 1|new
0 rename 2|new
2 rename 3|1
1 ncclAllReduce 10|1
0 fsync 12|2
0 unlinkat 7|2
2 ncclAllGather 42|0
1 ncclReduceScatter 25|0|1
END
    # Saving one file takes 12 all-gathers.
    right=$BATS_FILE_TMPDIR/right_whole all_come_through 7 4 --save full <<'END'
1 ncclAllGather 9|new
0 rename 3|1
0 fsync 6|2
END
}

# Rank 2 stops before its shard of the first epoch has its name, so the manifest must name the shards before.
@test "the previous snapshot stays valid until all shards are complete" {
    for step in 5 7; do
        clear_now
        KILL_AT="2 rename 2 19" start_ranks 4 "$(watched $step)" --snapshot now/s --step-timeout 1
        ranks_end 15 1 0 1 3
        end_ranks
        [[ $(files now) == *"s.e1s0u.0of4 s.e1s0u.1of4 s.e1s0u.2of4.tmp s.e1s0u.3of4"* ]]
        goes_on_from 0 $step
    done
}

@test "a full disk ends the run, nothing of that save stays, and the previous snapshot is complete" {
    # The disk of rank 2 is full at its first save, and then at its second one.
    for step in 5 7 8 9; do
        more=()
        [ $step != 9 ] || more=(--tensor 1)
        for fits in 0 1; do
            clear_now
            KILL_AT="2 fsync $((2 * fits + 1)) 0" start_ranks 4 "$(watched $step)" --snapshot now/s "${more[@]}"
            ranks_end 10 1 2
            rank_says 2 "$(text_of CANNOT_WRITE) now/s\.e${fits}s0u[0-9a-f]{8}\.2of4: No space left on device$"
            others_end 2
            rm -f now/s.lock # a rank that the watchdog ends leaves it, but not the lock
            [ "$(files now)" = "$([ $fits = 0 ] || echo s s.e0s0u.{0,1,2,3}of4)" ] || { echo "step $step, $fits: $(files now)" && return 1; }
        done
        [ $step -gt 7 ] || goes_on_from 0 $step
    done
    # A folder takes the place of the manifest, so only rank 0 fails.
    clear_now
    train 5 4 --epochs 2 --snapshot now/s
    mkdir now/s.tmp
    start_ranks 4 "$(program_of 5)" --snapshot now/s --save-every 100
    ranks_end 10 1 0
    rank_says 0 "$(text_of CANNOT_WRITE) now/s: Is a directory$"
    for rank in 1 2 3; do
        until_true 10 has_ended "${pids[rank]}"
    done
    rmdir now/s.tmp
    [ "$(files now)" = "$(echo s s.e2s0u.{0,1,2,3}of4)" ]
    goes_on_from 2 5
}

# refused_by RANKS TEXT OPTION...: all ranks must refuse the snapshot in one line each, these ranks with the reason, and must
# not change it.
refused_by() {
    local rank reason before
    before=$(cd now && contents)
    start_ranks 4 "$(program_of 5)" --snapshot now/s --join-timeout 1 "${@:3}"
    ranks_end 10 1 0 1 2 3 || return
    for rank in 0 1 2 3; do
        [[ $1 == *$rank* ]] && reason=".*$(with_texts "$2")" || reason=
        rank_says $rank "$reason" || return
    done
    [ "$(cd now && contents)" = "$before" ]
}

# test_snapshot.c damages each part of the files.
@test "each rank refuses a damaged or different snapshot in one line, and the files stay" {
    mkdir good other
    train 5 4 --max-steps 5 --snapshot good/s
    train 5 4 --max-steps 4 --snapshot other/s --lr 0.1 # the same run in the end, but not the same way to it
    train 5 4 --max-steps 5 --snapshot other/s
    while IFS='|' read -r ranks text command more; do
        rm -rf now && cp -r good now
        (cd now && eval "$command")
        refused_by "$ranks" "$text" $more
    done <<'END'
2|lacks its shard.*2of4|rm *2of4
03|is shard [03] of 4, but shard [03] is wanted|a=(*0of4) b=(*3of4) && mv $a x && mv $b $a && mv x $b
1|1of4 is shard 0 of 4, but shard 1 is wanted|cp *0of4 *1of4
2|2of4 belongs to another save|cp ../other/*2of4 .
3|{WRONG_CHECKSUM}|flip *3of4 300
0123|corrupt manifest|flip s 50
0123|holds mlp 8-9-3-7-10 with adam, not mlp 8-9-3-7-10 with sgd||--optimizer sgd
0123|{TRAINED_WITH} 1 --batch 120||--batch 80
END
}

# on_two_nodes PROGRAM OPTION...: runs the program on two simulated nodes of two ranks. One restart is allowed.
on_two_nodes() {
    restarts=1 nodes 2 2 "$1" --strategy hybrid "${@:2}"
}

@test "with hybrid sharding, only the first node saves the model" {
    mkdir now
    seven=$(program_of 7)
    # No rank of the second group writes a file.
    for rank in 2 3; do
        KILL_AT="$rank rename 1 9" on_two_nodes "$(watched 7)" --max-steps 7 --snapshot now/s
    done
    [ "$(files now)" = "s s.e1s2u.0of2 s.e1s2u.1of2" ]
    # The run continues from this snapshot after a kill in the other group.
    rm -f now/*
    on_two_nodes "$seven" --snapshot now/s
    mv now undisturbed
    mkdir now
    KILL_AT="3 ncclReduceScatter 25 9" on_two_nodes "$(killable_once 7)" --snapshot now/s
    grep -q 'restart 1 of 1' err.0
    diff -r undisturbed now
    train 7 4 --snapshot undisturbed/s # all ranks in one group also load it
    [ "$(files undisturbed)" = "$(files "$(right)")" ]
}
