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

@test "layers with fewer parameters than ranks are saved correctly" {
    options+=(--hidden "1,1" --max-steps 7)
    mkdir shards whole
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

@test "the test detects values in the wrong place" {
    mkdir four whole
    train 4 --max-steps 7 --snapshot four/s
    cp -r four/. whole
    "$TRAIN" "${options[@]}" --max-steps 7 --snapshot whole/s
    changed ./program 5 train.c 's/(sharding, )t->rank, why/\10, why/'
    run ! becomes four whole launch_tiny 4 ./program
}

@test "a run that is stopped at any step and continued ends with the same bits" {
    for stop in 1 4 5 7 14 15; do
        train 4 --max-steps $stop --snapshot now/s
        [ "$(find now -type f | wc -l)" = 5 ]
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
# the same for the manifest, and then removes the four old files. A training step has 8 all-gathers and 4
# reduce-scatters. An epoch has five training steps, then 4 all-gathers and 2 all-reduces, and one all-reduce for the save.
@test "a rank killed while it saves, gathers or scatters is restarted, and the result is the same" {
    while read -r rank function nth epochs; do
        rm -rf now && mkdir now
        comes_through "$rank $function $nth" "$epochs"
        diff -r "$right" now
    done <<'END'
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
    waits_for_shards() { # PROGRAM
        rm -rf now && mkdir now
        KILL_AT="2 rename 2 19" start_ranks 4 "$1" --snapshot now/s --step-timeout 2
        ranks_end 10 1 0 1 3 || return
        kill -9 "${pids[2]}"
        [[ $(files now) == *"s.e1s0u.0of4 s.e1s0u.1of4 s.e1s0u.2of4.tmp s.e1s0u.3of4" ]] || return
        goes_on_from 0
    }
    waits_for_shards "$killed"
    changed ./program 5 fsdp.c '/int fsdp_save/,/^}/{/COLLECTIVE/,/wait_for/d}'
    refute waits_for_shards ./program
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
0 rename 4 0
0 unlinkat 7 2
1 ncclAllGather 50 (0|1)
3 ncclReduceScatter 25 (0|1)
END
}

@test "killing ranks at random moments changes no bit" {
    RANDOM=5
    options+=(--batch 600) # an epoch of one training step, so the ranks save most of the time
    for case in 4 "3 7"; do
        read -r count chaos <<<"$case"
        rm -rf now undisturbed && mkdir now undisturbed
        # shellcheck disable=SC2086 # no variable without a seed
        start env ${chaos:+CPU_DEVICE_CHAOS=$chaos} "$launch" --nproc-per-node "$count" --max-restarts 100 "$sharded" \
            "${options[@]}" --epochs 1000000 --snapshot now/s
        for attempt in 0 1 2; do
            until_true 20 find_ranks "$count" $attempt
            sleep "$(printf 0.%03d $((RANDOM % 150)))"
            kill -9 "${ranks[RANDOM % count]}"
        done
        until_true 20 await_signals "$count" 3
        kill -USR1 "$pid"
        job_ends 0
        [ "$(grep -c 'failed first.*signal 9, Killed$' err)" = 3 ]
        train "$count" --epochs 1000000 --max-steps 1 --snapshot now/s >out
        epochs=$(sed -n 's/^resumed   now\/s: \([0-9]*\) .*/\1/p' out)
        echo "$epochs epochs"
        train "$count" --epochs "$epochs" --save-every 1000000 --snapshot undisturbed/s >out
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
    # A folder takes the place of the manifest, so only rank 0 fails.
    rm -rf now && mkdir now
    train 4 --epochs 2 --snapshot now/s
    mkdir now/s.tmp
    start_ranks 4 "$sharded" --snapshot now/s --save-every 100
    ranks_end 10 1 0
    rank_says 0 "cannot write snapshot now/s: Is a directory$"
    for rank in 1 2 3; do
        until_true 10 has_ended "${pids[rank]}"
    done
    rmdir now/s.tmp
    goes_on_from 2
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
    for signal in 10 15; do
        for place in "1 ncclReduceScatter 9" "2 ncclReduceScatter 26"; do
            rm -rf now && mkdir now
            KILL_AT="$place $signal" launch_tiny 4 "$killed" --log-every 1 --snapshot now/s >out 2>err
            drop_pids err
            [ ! -s err ]
            grep -qx "told to stop by a signal; saved" out
            steps=$(sed -nE 's/^stopped after step ([0-9]+)$/\1/p' out)
            [ "$steps" -gt 2 ]
            [ "$(find now -type f | wc -l)" = 5 ]
            goes_on_from '[01]'
            [ "$(awk '/^resumed/ { print 5 * $3 + $6 }' resumed)" = "$steps" ]
        done
    done
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
