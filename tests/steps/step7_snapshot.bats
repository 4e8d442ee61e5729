#!/usr/bin/env bats
# Tests of step 7's snapshots: any number of ranks and any step loads shards with the same bits, and after any failure of a
# rank or a disk, the run can continue from a snapshot. Copies of its sources with one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154,SC2317 # bats and helpers.bash set variables and call functions
program=07_large_models/train
load shards

setup_file() {
    prepare_shards
    mkdir "$right_whole"
    train 4 --save full --snapshot "$right_whole/s"
}

@test "any step, number of ranks, strategy and units loads shards and saves the same bytes" {
    mkdir four units three whole
    one() { "$TRAIN" "${options[@]}" "$@"; }
    two() { "$build/02_multigpu_fork/train" --nproc 2 "${options[@]}" "$@"; }
    train 4 --max-steps 7 --snapshot four/s
    [ "$(files four)" = "s s.e1s2u.0of4 s.e1s2u.1of4 s.e1s2u.2of4 s.e1s2u.3of4" ]
    train 4 --max-steps 7 --save full --snapshot whole/s
    [ "$(files whole)" = s ]
    # Units of two layers, units of three layers and one, and one unit of all layers.
    becomes four whole train 4
    becomes four four train 4
    cp -r four/. units
    for bytes in 460 600 10000; do
        train 4 --max-steps 7 --unit-bytes $bytes --snapshot units/s
        [ "$(files units)" = "$(files four)" ]
        run ! cmp -s units/s four/s
        becomes whole units train 3 --save full --unit-bytes 460
        becomes four units train 4
    done
    cp -r four/. three
    train 3 --max-steps 7 --snapshot three/s
    [ "$(files three)" = "s s.e1s2u.0of3 s.e1s2u.1of3 s.e1s2u.2of3" ]
    for from in four units three whole; do
        becomes whole $from one
        becomes whole $from launch_tiny 2 "$build/04_multinode/train"
        becomes four $from train 4 --strategy grad
        becomes three $from train 3
        for ranks in 1 2 4; do
            becomes whole $from train $ranks --save full
        done
    done
    becomes whole four two
    becomes whole four launch_tiny 3 "$build/03_multigpu_launcher/train"
    for ranks in 1 2 3 4; do
        becomes whole four train $ranks --strategy none
    done
    # bfloat16 rounds the gathered parameters, but not the saved ones.
    becomes whole four train 4 --precision bf16 --save full
    becomes four whole train 4 --precision bf16
}

@test "layers with fewer parameters than ranks are saved correctly" {
    options+=(--hidden "1,1" --max-steps 7)
    mkdir shards whole
    train 4 --unit-bytes 1 --snapshot shards/s
    train 4 --save full --snapshot whole/s
    for ranks in 1 3 4; do
        becomes whole shards train $ranks --save full
    done
    becomes whole shards "$TRAIN" "${options[@]}"
    becomes shards whole train 4
}

@test "the test detects values in the wrong place" {
    mkdir four whole
    train 4 --max-steps 7 --snapshot four/s
    train 4 --max-steps 7 --save full --snapshot whole/s
    while read -r file change; do
        changed ./program 7 "$file" "$change"
        run ! becomes whole four launch_tiny 4 ./program --save full
    done <<'END'
saving.c s/values \+ u->begin/values + u->first/
train.c s/t->fsdp\.shard, why/0, why/
END
}

@test "a run that is stopped at any step and continued ends with the same bits" {
    for stop in 1 4 5 7 14 15; do
        train 4 --max-steps $stop --snapshot now/s
        [ "$(find now -type f | wc -l)" = 5 ]
    done
    diff -r "$right" now
    rm now/*
    # The form of the earlier snapshots makes no difference.
    train 4 --max-steps 3 --save full --snapshot now/s
    train 4 --max-steps 8 --unit-bytes 600 --snapshot now/s
    train 4 --snapshot now/s >out
    grep -qx 'resumed   now/s: 1 epoch and 3 steps are done' out
    diff -r "$right" now
}

@test "a stopped run continues with other ranks and strategies on the same loss curve" {
    "$TRAIN" "${options[@]}" --epochs 6 --log-every 1 --csv right.csv
    steps=0
    for how in "4 full" "2 none" "3 grad" "1 full" "4 none" "2 grad" "3 full" "4 grad"; do
        read -r ranks strategy <<<"$how"
        train "$ranks" --strategy "$strategy" --epochs 6 --max-steps $((steps += 4)) --log-every 1 --snapshot now/s \
            --csv now.csv
    done
    [ "$steps" -ge 30 ]
    same_curve right.csv now.csv
}

@test "--save full writes the same file as a model that is not sharded" {
    for strategy in full grad; do
        rm -rf shards gathered && mkdir shards gathered
        train 4 --strategy $strategy --max-steps 7 --snapshot shards/s
        train 4 --strategy $strategy --max-steps 7 --save full --snapshot gathered/s
        becomes gathered shards train 4 --strategy none
    done
}

# Saving must need no more device memory than training.
saves_in_place() { # PROGRAM OPTION...
    local peak how=("${@:2}" --hidden "64,64,64" --epochs 1)
    rm -f now/*
    launch_tiny 4 "$1" "${how[@]}" >out || return
    peak=$(awk '$1 == "peak" { print $2 }' out)
    CPU_DEVICE_MEMORY=$((peak - 1)) run ! launch_tiny 4 "$1" "${how[@]}"
    [[ $output == *"out of device memory"* ]] || return
    for save in full sharded; do
        CPU_DEVICE_MEMORY=$peak launch_tiny 4 "$1" "${how[@]}" --save $save --snapshot now/s || return
    done
}

@test "saving allocates no device memory" {
    for how in "--strategy full" "--precision bf16"; do
        # shellcheck disable=SC2086 # words
        saves_in_place "$sharded" $how
    done
    changed ./program 7 saving.c 's/void collect.*/&\n    float *more;\n    DEVICE_ALLOC(more, "more", 64);/'
    run ! saves_in_place ./program
}

@test "a run leaves only the files of its snapshot, and does not touch other files" {
    old=e1s0u12345678.0of4
    foreign=(xs s2 "t.$old" "s.${old}x" "s.$old.tmp2" "s.x$old" s.e01s0u12345678.0of4 s.e1s0u1234567.0of4
        s.e1s0u12345678.00of4 s.e1s0uABCDEF01.0of4 s.e1s0u12345678.0 s.e1s0u12345678.-1of4)
    left=("s.$old" "s.$old.tmp" s.e9s1uabcdef01.11of12)
    for more in "4 --save sharded" "2 --save full" "3 --save sharded" "4 --strategy none" "4 --strategy hybrid"; do
        read -r ranks what how <<<"$more"
        for name in "${foreign[@]}" "${left[@]}"; do
            echo "$name" >"now/$name"
        done
        train "$ranks" "$what" "$how" --snapshot now/s
        for name in "${foreign[@]}"; do
            [ "$(cat "now/$name")" = "$name" ]
            rm "now/$name"
        done
        shards=$(for ((i = 0; i < ranks; i++)); do echo "s.e3s0u.${i}of$ranks"; done | xargs)
        [[ $how =~ ^(full|none)$ ]] || [ "$(files now)" = "s $shards" ]
        [[ ! $how =~ ^(full|none)$ ]] || [ "$(files now)" = s ]
    done
    diff -r "$right" now
}

# comes_through PLACE EPOCHS OPTION...: kills one of four ranks at this place. The run must continue from this number of
# epochs, or from the start (new).
comes_through() {
    KILL_AT="$1 9" timeout 60 "$launch" --nproc-per-node 4 --max-restarts 1 "$killed_once" "${options[@]}" \
        --snapshot now/s "${@:3}" >out 2>err || { echo "killed at $1" && cat err && return 1; }
    grep -q "^launch: rank ${1%% *} (pid [0-9]* on .*) failed first, in attempt 0: signal 9, Killed$" err || return
    [ "$(grep -c '^launch: starting all ranks again: restart 1 of 1$' err)" = 1 ] || return
    epochs=$(sed -n 's/^resumed   now\/s: \([0-9]*\) epochs\? and 0 steps are done.*/\1/p' out)
    [[ ${epochs:-new} =~ ^($2)$ ]] || { echo "killed at $1: goes on from ${epochs:-new}" && return 1; }
}

# A run saves before it starts and after each epoch. For a save, each rank calls rename once and fsync twice. Rank 0 does
# the same for the manifest, and then removes the four old files. A training step has 8 all-gathers, 4 reduce-scatters
# and 4 all-reduces. An epoch has five training steps, then 4 all-gathers and 3 all-reduces, and one all-reduce for the
# save.
@test "a rank killed while it saves, gathers or scatters is restarted, and the result is the same" {
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        comes_through "$rank $function $nth" "$epochs"
        diff -r "$right" now
    done <<'END'
1 ncclAllReduce 49 1
0 rename 6 1
3 ncclAllGather 50 0|1
END
    # Saving one file takes 12 all-gathers.
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        comes_through "$rank $function $nth" "$epochs" --save full
        diff -r "$right_whole" now
    done <<'END'
1 ncclAllGather 9 new
0 rename 3 1
0 fsync 6 2
END
}

@test "when a rank is killed during a change of the shards, the old or the new snapshot is complete" {
    mkdir four
    train 4 --max-steps 7 --snapshot four/s
    cp -r four two && cp -r four whole
    train 2 --max-steps 7 --snapshot two/s
    train 4 --max-steps 7 --save full --snapshot whole/s
    while read -r from to ranks save place; do
        rm -rf now && cp -r "$from" now
        KILL_AT="$place 9" run ! launch_tiny "$ranks" "$killed" --max-steps 7 --save "$save" --snapshot now/s
        [[ $output == *"launch: rank ${place%% *} "*"signal 9, Killed"* ]]
        rm -rf stopped && mv now stopped
        becomes "$to" stopped train "$ranks" --save "$save"
    done <<'END'
four two 2 sharded 1 rename 1
four two 2 sharded 0 rename 2
four two 2 sharded 0 unlinkat 2
two four 4 sharded 0 fsync 4
two four 4 sharded 0 unlinkat 1
two whole 4 full 0 rename 1
two whole 4 full 0 fsync 2
two whole 4 full 0 unlinkat 2
whole four 4 sharded 0 fsync 4
END
}

@test "the previous snapshot stays valid until all shards are complete" {
    waits_for_shards() { # PROGRAM
        rm -rf now && mkdir now
        KILL_AT="2 rename 2 19" start_ranks 4 "$1" --snapshot now/s --step-timeout 2
        ranks_end 10 1 0 1 3 || return
        kill -9 "${pids[2]}"
        [[ $(files now) == *"s.e1s0u.0of4 s.e1s0u.1of4 s.e1s0u.2of4.tmp s.e1s0u.3of4" ]] || return
        goes_on_from 0
    }
    waits_for_shards "$killed"
    changed ./program 7 saving.c '/int save_shards/,/^}/{/COLLECTIVE|wait_for/d}'
    refute waits_for_shards ./program
}

@test "when a rank stops before the communicator is split, the others give up" {
    changed ./program 7 units.c '0,/^( *)COLLECTIVE/s//\1if (rank == 1)\n\1    raise(SIGSTOP);\n&/; s/^#include "07_large_models.units.h"/&\n#include <signal.h>/'
    start_ranks 3 ./program --step-timeout 1
    ranks_end 8 1 0 2
    for rank in 0 2; do
        rank_says $rank "a collective has not ended for 1 s \(--step-timeout\): .* \(step 0, collective 1, ncclCommSplit at "
    done
}

@test "when a rank is killed, the others name a collective and end; the snapshot is complete" {
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        KILL_AT="$rank $function $nth 9" start_ranks 4 "$killed" --snapshot now/s
        ranks_end 10 137 "$rank"
        others_end "$rank"
        goes_on_from "$epochs"
    done <<'END'
2 rename 3 1
3 ncclReduceScatter 25 (0|1)
END
}

@test "killing ranks at random moments changes no bit" {
    RANDOM=5
    options+=(--batch 600) # an epoch of one training step, so the ranks save most of the time
    for case in "3 sharded 7" "2 full 3"; do
        read -r count save chaos <<<"$case"
        rm -rf now undisturbed && mkdir now undisturbed
        # shellcheck disable=SC2086 # no variable without a seed
        start env ${chaos:+CPU_DEVICE_CHAOS=$chaos} "$launch" --nproc-per-node "$count" --max-restarts 100 "$sharded" \
            "${options[@]}" --epochs 1000000 --save "$save" --snapshot now/s
        for attempt in 0 1 2; do
            until_true 20 find_ranks "$count" $attempt
            sleep "$(printf 0.%03d $((RANDOM % 150)))"
            kill -9 "${ranks[RANDOM % count]}"
        done
        until_true 20 await_signals "$count" 3
        kill -USR1 "$pid"
        job_ends 0
        [ "$(grep -c 'failed first.*signal 9, Killed$' err)" = 3 ]
        train "$count" --epochs 1000000 --max-steps 1 --save "$save" --snapshot now/s >out
        epochs=$(sed -n 's/^resumed   now\/s: \([0-9]*\) .*/\1/p' out)
        echo "$epochs epochs"
        train "$count" --epochs "$epochs" --save-every 1000000 --save "$save" --snapshot undisturbed/s >out
        diff -r undisturbed now
    done
}

@test "a file that cannot be written ends the run, and the previous snapshot is complete" {
    # A folder takes the place of a shard, after the first or after the last epoch.
    shard=$(cd "$right" && echo s.*.2of4)
    for name in "${shard/e3/e1}" "$shard"; do
        rm -rf now && mkdir -p "now/$name.tmp"
        start_ranks 4 "$sharded" --snapshot now/s
        ranks_end 10 1 2
        rank_says 2 "cannot write snapshot now/$name: Is a directory$"
        others_end 2
        rmdir "now/$name.tmp"
        goes_on_from "$([ "$name" = "$shard" ] && echo 2 || echo 0)"
    done
    # A folder takes the place of the manifest or of the one file, so only rank 0 fails.
    for save in sharded full; do
        rm -rf now && mkdir now
        train 4 --epochs 2 --save $save --snapshot now/s
        mkdir now/s.tmp
        start_ranks 4 "$sharded" --snapshot now/s --save $save --save-every 100
        ranks_end 10 1 0
        rank_says 0 "cannot write snapshot now/s: Is a directory$"
        for rank in 1 2 3; do
            until_true 10 has_ended "${pids[rank]}"
        done
        rmdir now/s.tmp
        goes_on_from 2 --save $save
    done
}

@test "after a signal, the ranks save and exit with 0, and the next run ends with the same bits" {
    for signal in 10 15; do
        for place in "1 ncclReduceScatter 9" "2 ncclReduceScatter 26"; do
            for save in sharded full; do
                rm -rf now && mkdir now
                KILL_AT="$place $signal" launch_tiny 4 "$killed" --log-every 1 --save $save \
                    --snapshot now/s >out 2>err
                drop_pids err
                [ ! -s err ]
                grep -qx "told to stop by a signal; saved" out
                steps=$(sed -nE 's/^stopped after step ([0-9]+)$/\1/p' out)
                [ "$steps" -gt 2 ]
                [ "$(find now -type f | wc -l)" = "$([ $save = full ] && echo 1 || echo 5)" ]
                goes_on_from '[01]' --save $save
                [ "$(awk '/^resumed/ { print 5 * $3 + $6 }' resumed)" = "$steps" ]
            done
        done
    done
}

# Runs the program on two simulated nodes of two ranks. One restart is allowed.
on_two_nodes() { # PROGRAM OPTION...
    local node port nodes=() failed=0
    port=$(free_port)
    for node in 0 1; do
        NCCL_HOSTID=$node timeout 60 "$launch" --nnodes 2 --nproc-per-node 2 --node-rank $node --max-restarts 1 \
            --master-addr 127.0.0.1 --master-port "$port" "$1" "${options[@]}" --strategy hybrid "${@:2}" \
            >out.$node 2>err.$node 3>&- &
        nodes+=($!)
    done
    for node in "${nodes[@]}"; do
        wait "$node" || failed=1
    done
    return $failed
}

@test "with hybrid sharding, only the first node saves the model" {
    on_two_nodes "$sharded" --max-steps 7 --snapshot now/s
    [ "$(files now)" = "s s.e1s2u.0of2 s.e1s2u.1of2" ]
    # No rank of the second group writes a file.
    for rank in 2 3; do
        KILL_AT="$rank rename 1 9" on_two_nodes "$killed" --max-steps 7 --snapshot now/s
    done
    changed ./program 7 train.c 's/ \|\| t->rank >= f->shards//'
    KILL_AT="2 rename 1 9" run ! on_two_nodes ./program --max-steps 7 --snapshot now/s
    # The run continues from this snapshot after a kill in either group.
    rm -f now/*
    on_two_nodes "$sharded" --snapshot now/s
    mv now undisturbed
    for place in "1 rename 3" "3 ncclReduceScatter 25"; do
        mkdir now
        KILL_AT="$place 9" on_two_nodes "$killed_once" --snapshot now/s
        grep -q 'restart 1 of 1' err.0
        diff -r undisturbed now
        rm -r now
    done
    mkdir now
    # All ranks in one group also load it.
    "$TRAIN" "${options[@]}" --log-every 1 --csv right.csv
    for how in hybrid full; do
        rm -f now/* now.csv
        on_two_nodes "$sharded" --max-steps 7 --log-every 1 --snapshot now/s --csv now.csv
        if [ $how = hybrid ]; then
            on_two_nodes "$sharded" --log-every 1 --snapshot now/s --csv now.csv
            grep -qx 'resumed   now/s: 1 epoch and 2 steps are done' out.0
            [ "$(files now)" = "s s.e3s0u.0of2 s.e3s0u.1of2" ]
        else
            train 4 --log-every 1 --snapshot now/s --csv now.csv
            [ "$(files now)" = "$(files "$right")" ]
        fi
        same_curve right.csv now.csv
    done
}
