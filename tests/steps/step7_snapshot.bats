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
    # bfloat16 rounds the gathered parameters, but not the saved ones. The file names the precision.
    cp -r four rounded
    train 4 --max-steps 7 --precision bf16 --save full --snapshot rounded/s
    run ! diff -r whole rounded
    becomes whole rounded one
    becomes rounded four train 4 --precision bf16 --save full
    cp -r four rounded_shards
    train 4 --max-steps 7 --precision bf16 --snapshot rounded_shards/s
    becomes four rounded_shards train 4
    becomes rounded_shards rounded train 4 --precision bf16
}

# bats test_tags=test-all
@test "layers with fewer parameters than ranks, or with none, are saved correctly" {
    options+=(--hidden "1,1" --max-steps 7)
    saves_small_layers() {
        rm -rf shards whole && mkdir shards whole
        train 4 --unit-bytes 1 --snapshot shards/s
        train 4 --save full --snapshot whole/s
        for ranks in 1 3 4; do
            becomes whole shards train $ranks --save full
        done
        becomes whole shards "$TRAIN" "${options[@]}"
        becomes shards whole train 4 --strategy grad
    }
    saves_small_layers
    options+=(--augment flip) # the first unit has no parameters
    saves_small_layers
}

# bats test_tags=test-all
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

@test "the form of the earlier snapshots makes no difference" {
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

# A run saves before it starts and after each epoch. For a save, each rank calls rename once and fsync twice. Rank 0 does
# the same for the manifest, and then removes the four old files. A training step has 8 all-gathers, 4 reduce-scatters
# and 4 all-reduces. An epoch has five training steps, then 4 all-gathers and 3 all-reduces, and one all-reduce for the
# save.
@test "a rank killed while it saves, gathers or scatters is restarted, and the result is the same" {
    all_come_through "$right" <<'END'
1 ncclAllReduce 49 1
0 rename 6 1
3 ncclAllGather 50 0|1
END
    # Saving one file takes 12 all-gathers.
    all_come_through "$right_whole" --save full <<'END'
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
    waits_for_shards "$killed"
    changed ./program 7 saving.c '/int save_shards/,/^}/{/COLLECTIVE/,/;/d; /wait_for/d}'
    refute waits_for_shards ./program
}

@test "when a rank stops before the communicator is split, the others give up" {
    changed ./program 7 units.c '0,/^( *)COLLECTIVE/s//\1if (rank == 1)\n\1    raise(SIGSTOP);\n&/; s/^#include "07_large_models.units.h"/&\n#include <signal.h>/'
    start_ranks 3 ./program --join-timeout 3
    ranks_end 8 1 0 2
    for rank in 0 2; do
        rank_says $rank "a collective has not ended for 3 s \(--join-timeout\): .* \(step 0, collective 1, ncclCommSplit at "
    done
}

@test "when a rank is killed, the others name a collective and end; the snapshot is complete" {
    all_are_noticed <<'END'
2 rename 3 1
3 ncclReduceScatter 25 (0|1)
END
}

@test "killing ranks at random moments changes no bit" {
    RANDOM=5
    options+=(--batch 600) # an epoch of one training step, so the ranks save most of the time
    kills_at_random 3 7 --save sharded
    kills_at_random 2 3 --save full
}

@test "a file that cannot be written ends the run, and the previous snapshot is complete" {
    shard_cannot_be_written
    manifest_cannot_be_written --save sharded
    manifest_cannot_be_written --save full
}

@test "after a signal, the ranks save and exit with 0, and the next run ends with the same bits" {
    stops_at_signals 5 --save sharded
    stops_at_signals 1 --save full
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
