#!/usr/bin/env bats
# Tests of step 5's snapshots: any number of ranks and any step loads shards with the same bits, and after any failure of a
# rank or a disk, the run can continue from a snapshot. Copies of its sources with one planted mistake must fail.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154,SC2317 # bats and helpers.bash set variables and call functions
program=05_fsdp/train
load shards

setup_file() {
    prepare_shards 07_large_models/train
}

@test "any step and any number of ranks loads shards and saves the same bytes" {
    mkdir four three whole
    one() { "$TRAIN" "${options[@]}" "$@"; }
    two() { "$build/02_multigpu_fork/train" --nproc 2 "${options[@]}" "$@"; }
    train 4 --max-steps 7 --snapshot four/s
    [ "$(files four)" = "s s.e1s2u.0of4 s.e1s2u.1of4 s.e1s2u.2of4 s.e1s2u.3of4" ]
    cp -r four/. whole
    one --max-steps 7 --snapshot whole/s
    [ "$(files whole)" = s ]
    becomes four whole train 4
    becomes four four train 4
    cp -r four/. three
    train 3 --max-steps 7 --snapshot three/s
    [ "$(files three)" = "s s.e1s2u.0of3 s.e1s2u.1of3 s.e1s2u.2of3" ]
    for from in four three whole; do
        becomes whole $from one
        becomes whole $from launch_tiny 2 "$build/04_multinode/train"
        becomes whole $from launch_tiny 2 "$build/07_large_models/train" --save full
        becomes four $from launch_tiny 4 "$build/07_large_models/train" --strategy grad
        becomes four $from train 4
        becomes three $from train 3
        becomes whole $from train 1
    done
    becomes whole four two
    becomes whole four launch_tiny 3 "$build/03_multigpu_launcher/train"
}

# bats test_tags=test-all
@test "layers with fewer parameters than ranks, or with none, are saved correctly" {
    options+=(--hidden "1,1" --max-steps 7)
    saves_small_layers() {
        rm -rf shards whole && mkdir shards whole
        train 4 --snapshot shards/s
        cp -r shards/. whole
        "$TRAIN" "${options[@]}" --snapshot whole/s
        becomes shards whole train 4
        for ranks in 1 3; do
            becomes shards shards train 4
            cp -r shards/. now
            train $ranks --snapshot now/s
            cp -r now other
            becomes shards other train 4
            rm -r other
        done
    }
    saves_small_layers
    options+=(--augment flip --dropout 0.2) # every other layer has no parameters, and so has the first one
    saves_small_layers
}

# bats test_tags=test-all
@test "the test detects values in the wrong place" {
    mkdir four whole
    train 4 --max-steps 7 --snapshot four/s
    cp -r four/. whole
    "$TRAIN" "${options[@]}" --max-steps 7 --snapshot whole/s
    changed ./program 5 train.c 's/(sharding, )t->rank, why/\10, why/'
    run ! becomes four whole launch_tiny 4 ./program
}

# A run saves before it starts and after each epoch. For a save, each rank calls rename once and fsync twice. Rank 0 does
# the same for the manifest, and then removes the four old files. A training step has 8 all-gathers and 4
# reduce-scatters. An epoch has five training steps, then 4 all-gathers and 2 all-reduces, and one all-reduce for the save.
@test "a rank killed while it saves, gathers or scatters is restarted, and the result is the same" {
    all_come_through "$right" <<'END'
3 rename 1 new
0 rename 2 new
0 rename 5 1
2 rename 3 1
1 ncclAllReduce 7 1
0 rename 6 1
0 fsync 12 2
0 unlinkat 7 2
2 ncclAllGather 42 0
3 ncclAllGather 50 0|1
1 ncclReduceScatter 25 0|1
END
}

@test "the previous snapshot stays valid until all shards are complete" {
    waits_for_shards "$killed"
    changed ./program 5 fsdp.c '/int fsdp_save/,/^}/{/COLLECTIVE/,/wait_for/d}'
    refute waits_for_shards ./program
}

@test "when a rank is killed, the others name a collective and end; the snapshot is complete" {
    all_are_noticed <<'END'
2 rename 3 1
0 rename 4 0
0 unlinkat 7 2
1 ncclAllGather 50 (0|1)
3 ncclReduceScatter 25 (0|1)
END
}

@test "killing ranks at random moments changes no bit" {
    RANDOM=5
    options+=(--batch 600) # an epoch of one training step, so the ranks save most of the time
    kills_at_random 4 ''
    kills_at_random 3 7
}

@test "a file that cannot be written ends the run, and the previous snapshot is complete" {
    shard_cannot_be_written
    manifest_cannot_be_written
}

@test "if a disk has no room for a shard, the previous snapshot stays" {
    # The limit also holds for shared memory, and the CPU device has files of half that size there.
    cat >limited <<END
#!/usr/bin/env bash
[ \$RANK != 2 ] || { trap '' XFSZ && ulimit -f 700; }
exec $sharded "\$@"
END
    chmod +x limited
    options+=(--hidden "512,512")
    mkdir big
    train 4 --snapshot big/s
    train 4 --epochs 1 --snapshot now/s
    cp -r now before
    start_ranks 4 ./limited --snapshot now/s
    ranks_end 10 1 2
    rank_says 2 "cannot write snapshot now/s.*2of4: File too large$"
    others_end 2
    for file in before/*; do
        cmp "$file" "now/${file#*/}"
    done
    train 4 --snapshot now/s >out
    grep -q '^resumed   now/s: 1 epoch ' out
    diff -r big now
}

# All ranks must refuse the snapshot in one line each, this rank (or all) with the reason, and must not change it.
refused_by() { # RANK TEXT OPTION...
    local rank before
    before=$(cd now && contents)
    start_ranks 4 "$sharded" --snapshot now/s --join-timeout 1 "${@:3}"
    ranks_end 10 1 0 1 2 3 || return
    for rank in 0 1 2 3; do
        if [ "$1" = "$rank" ] || [ "$1" = all ]; then
            rank_says $rank ".*$2" || return
        else
            rank_says $rank || return
        fi
    done
    [ "$(cd now && contents)" = "$before" ]
}

@test "each rank refuses a damaged or different snapshot in one line, and the files stay" {
    mkdir good later
    train 4 --max-steps 7 --snapshot good/s
    train 4 --max-steps 8 --snapshot later/s
    while read -r rank text command file more; do
        rm -rf now && cp -r good now
        # shellcheck disable=SC2086 # words
        $command now/*"$file" $more
        refused_by "$rank" "${text//_/ }"
    done <<'END'
2 lacks_its_shard.*2of4 rm 2of4
3 wrong_checksum flip 3of4 300
0 is_no_snapshot truncate 0of4 -s 0
all corrupt_manifest flip s 50
all corrupt_manifest truncate s -s -1
END
    # A shard of another training step under the expected name.
    rm -rf now && cp -r good now
    cp later/*.1of4 now/*.1of4
    refused_by 1 "its shard .* is of another step"
    # Two of three ranks need the missing shard.
    rm -rf now && cp -r good now
    rm now/*.1of4
    start "$launch" --nproc-per-node 3 "$sharded" "${options[@]}" --snapshot now/s
    job_ends 1
    grep -q "^error (.*): snapshot now/s lacks its shard now/s.*.1of4: No such file" err
    rm -rf now && cp -r good now
    refused_by all "holds mlp 8-9-3-7-10 with adam, not mlp 8-9-3-8-10 with adam" --hidden 9,3,8
    refused_by all "holds mlp 8-9-3-7-10 with adam, not mlp 8-9-3-7-10 with sgd" --optimizer sgd
    refused_by all "was trained with --seed 1 --batch 120" --seed 2
    refused_by all "was trained with --seed 1 --batch 120" --batch 80
}

@test "after a signal, the ranks save and exit with 0, and the next run ends with the same bits" {
    stops_at_signals 5
    # The launcher gets the signal, as from batch systems.
    for signal in USR1 TERM; do
        rm -rf now && mkdir now
        start "$launch" --nproc-per-node 4 "$sharded" "${options[@]}" --epochs 1000000 --log-every 1 --snapshot now/s
        until_true 20 grep -q '^epoch 2/' out
        kill -$signal "$pid"
        job_ends 0
        [ ! -s err ]
        grep -qx "told to stop by a signal; saved" out
        [ "$(find now -type f | wc -l)" = 5 ]
    done
}
