#!/usr/bin/env bats
# A run that is stopped, killed or moved to another step continues with what it has saved, in every step. every.bats asks the
# other questions that are the same for all steps.
# shellcheck disable=SC2086,SC2206 # options are lists of words
load ../helpers
load every_step
load trainers

# bats test_tags=gpu
@test "a run that is stopped at any step and continued ends with the same bits" {
    ! on_gpu || trainers="1 5" # to begin takes seconds there
    for step in $trainers; do
        ranks=$((3 + (step == 9)))
        more=${settings[step % 6]:-}
        rm -rf whole parts && mkdir whole parts
        train $step $ranks --snapshot whole/s --csv whole.csv $more
        rm -f parts.csv
        for stop in 1 5 7 19 0 0; do # after step 1, at and after the end of epoch 1, and before the last step
            train $step $ranks --snapshot parts/s --csv parts.csv --max-steps $stop $more
        done
        grep -qx "resumed   parts/s: 4 epochs and 0 steps are done; $(text_of NOTHING_LEFT)" out
        diff -r whole parts || { echo "step $step: $more" && return 1; }
        diff <(cut -d, -f1-6,8 whole.csv) <(cut -d, -f1-6,8 parts.csv)
    done
}

# The first training step is the slowest, so all ranks look for signals after it, whatever --log-every is.
@test "after a signal to one rank, all save and stop soon, and the next run ends with the same bits" {
    while IFS='|' read -r step ranks signal place more; do
        rm -rf right s csv && mkdir right s
        train $step $ranks --snapshot right/s $more
        program=$(watched $step) KILL_AT="$place $signal" train $step $ranks --snapshot s/s --csv csv $more
        drop_pids err
        [ ! -s err ]
        grep -qx "$(text_of STOPPED_BY_SIGNAL); saved" out
        stopped=$(sed -nE 's/^stopped after step ([0-9]+)$/\1/p' out)
        if [[ $more == *--log-every* ]]; then
            [ "$stopped" = 1 ] && [ "$(wc -l <csv)" = 1 ] # no line for this step
        else
            [ "$stopped" -gt 2 ]
        fi || { echo "step $step: $more" && cat out && return 1; }
        train $step $ranks --snapshot s/s $more
        [ "$(awk '/^resumed/ { print 5 * $3 + $6 }' out)" = "$stopped" ]
        diff -r right s || { echo "step $step: $more" && return 1; }
    done <<'END'
1|1|2|-1 gather_batch 1|--log-every 1000
2|3|2|1 gather_batch 1|--log-every 1000
3|4|10|0 ncclAllReduce 15|
3|4|15|2 report_epoch 1|
4|4|15|1 gather_batch 4|
5|4|10|1 ncclReduceScatter 9|
7|3|15|1 gather_batch 1|--log-every 1000
7|4|15|2 ncclReduceScatter 26|--save full
8|4|15|3 ncclAllReduce 8|--pipeline gpipe
9|4|15|2 ncclAllReduce 41|
END
}

# With --log-every 1, each training step is saved. With 1000, those are that come within the first second, and rank 0 is
# killed when it saves the second of them, before the new snapshot is complete.
@test "--save-minutes changes no bit, and a run continues from a snapshot between two log lines with the same bits" {
    for step in $trainers; do
        ranks=$((3 + (step == 9)))
        rm -rf right got && mkdir right got
        train $step $ranks --snapshot right/s --csv right.csv
        train $step $ranks --snapshot got/s --csv got.csv --save-minutes 1e-9
        diff -r right got || { echo "step $step" && return 1; }
        diff <(cut -d, -f1-6,8 right.csv) <(cut -d, -f1-6,8 got.csv)
        rm -rf got/* got.csv
        killed="$((step == 1 ? -1 : 0)) rename $((step < 5 ? 3 : 5)) 9" # shards have a manifest, too
        program=$(watched $step) KILL_AT=$killed refute train $step $ranks --snapshot got/s --log-every 1000 --save-minutes 1e-9
        train $step $ranks --snapshot got/s --log-every 1000 --csv got.csv
        grep -q "^resumed   got/s: 0 epochs and 1 step are done" out || { echo "step $step" && cat out && return 1; }
        diff -r right got || { echo "step $step" && return 1; }
        diff <(cut -d, -f3-6 right.csv | grep '^[0-9]') <(cut -d, -f3-6 got.csv | grep '^[0-9]')
    done
}

kill_some() { # COUNT: one of these ranks, or all of them
    local victims=("${ranks[RANDOM % $1]}")
    [ $((RANDOM % 4)) -gt 0 ] || victims=("${ranks[@]}")
    kill -9 "${victims[@]}" 2>/dev/null || true
}

# A rank must have begun to write a file since planned was touched.
saving() {
    local file
    for file in s/*.tmp; do
        [ ! "$file" -nt planned ] || return 0
    done
    return 1
}

# WIDE is a model of 25 MB with its optimizer, which is saved after each training step. It is killed during a save.
# bats test_tags=gpu
@test "killing ranks at random moments changes no bit, and loses only unsaved work" {
    tiny_data few 60 20
    options+=(--hidden "8,8" --log-every 100)
    for number in ${SEEDS:-3}; do
        RANDOM=$number
        while read -r step count delay more; do
            ! on_gpu || [ "$step $more" = "5 --batch 600" ] || continue
            more=${more/GPT/$gpt} more=${more/WIDE/--data few --hidden 2048,1024 --batch 60 --optimizer adam}
            rm -rf right s && mkdir right s
            delay=${delay#none}
            start env ${delay:+CPU_DEVICE_CHAOS=$delay} "$launch" --nproc-per-node $count --max-restarts 100 \
                "$(program_of $step)" "${options[@]}" --epochs 1000000 --snapshot s/s $more
            for attempt in 0 1; do
                until_true 20 find_ranks $count $attempt
                sleep "$(printf 0.%03d $((RANDOM % 300)))"
                touch planned
                [[ $more != *2048* ]] || until_true 20 saving
                kill_some $count
            done
            until_true 20 find_ranks $count 2
            until_true 20 trains_since "$(grep -c '^epoch ' out)"
            kill -USR1 "$pid"
            ends 0
            restarted 2
            awk '/^epoch .*(images|tokens)\/s/ { split($2, at, "/"); last = at[1] }
                /^resumed/ { if ($3 < last - 1) { print last, "epochs were done, but: " $0; exit 1 } }' out
            train $step $count --epochs 1000000 --max-steps 1 --snapshot s/s $more
            trained=$(awk '/^training/ { steps = $2 } /^resumed/ { print steps * $3 + $6 }' out) # it may end inside of an epoch
            train $step $count --epochs 1000000 --max-steps "$trained" --save-every 1000000 --snapshot right/s $more
            diff -r right s || { echo "step $step, seed $number: $trained training steps" && return 1; }
        done <<'END'
3 3 7
4 3 none WIDE
5 3 7 --batch 600
7 3 7 --batch 600 --save sharded
7 2 none WIDE --save full
7 3 none --batch 600 GPT --dropout 0.2
8 3 7 --batch 600
8 2 none WIDE
9 4 7 --batch 600 --tensor 2
9 2 none WIDE
END
    done
    [ -z "$(ls -A "$TMPDIR")" ]
}

# Sets holder to the process that the lock names. In step 2, it is the parent of the ranks.
holder_or_child_stops() {
    read -r _ holder _ <s/s.lock || [ -n "$holder" ] || return
    stopped "$holder" || stopped "$(cut -d' ' -f1 "/proc/$holder/task/$holder/children")"
} 2>/dev/null

# The first run stops just before its second file gets its name.
@test "a second run with the same snapshot is refused and names the first, and a killed run leaves no lock" {
    mkdir second
    for step in $trainers; do
        rm -rf right s && mkdir right s
        train $step 2 --snapshot right/s
        program=$(watched $step) set_command $step 2 --snapshot s/s
        KILL_AT="$((step == 1 ? -1 : 0)) rename 2 19" start "${command[@]}"
        until_true 30 holder_or_child_stops
        (cd s && contents) >before
        (cd second && refute train $step 2 --snapshot ../s/s)
        [ "$(grep -c "^error .*: snapshot ../s/s: process $holder ($(hostname).*) $(text_of OTHER_RUN); wait for" second/err)" = 1 ] ||
            { cat second/err && return 1; }
        (cd s && contents) | diff before -
        kill -9 "$holder"
        ends $((step < 3 ? 137 : 1))
        train $step 2 --snapshot s/s
        diff -r right s || { echo "step $step" && return 1; }
    done
}

@test "any step continues the runs of the others, with other numbers of ranks, on the same loss curve" {
    chain=() done=0
    steps=(1 3 $other_bits) # steps 2 to 4 save the same bytes
    for ((i = 0; i < ${#steps[@]}; i++)); do # each follows each other once
        for ((j = i + 1; j < ${#steps[@]}; j++)); do
            chain+=("${steps[i]}" "${steps[j]}")
        done
    done
    options+=(--epochs 7 --optimizer adadelta --lr 0.1 --dropout 0.2) # 35 training steps, more than runs
    train 1 1 --csv right
    for i in "${chain[@]}"; do
        train "$i" $((done % 4 + 1)) --snapshot s --csv csv --max-steps $((done + 1))
        [ $done = 0 ] || grep -qE "^resumed   s: $((done / 5)) epochs? and $((done % 5)) steps? (is|are) done$" out
        done=$((done + 1))
    done
    train 1 1 --snapshot s --csv csv
    same_curve right csv
}
