#!/usr/bin/env bats
# What every step's trainer must do: the questions are the same for all steps, and the files of the steps ask the others.
# shellcheck disable=SC2030,SC2031,SC2034,SC2086,SC2154 # bats, helpers.bash and every_step.bash set variables; lists of words
load ../helpers
load every_step
more_options=(--lr 0.01)
trainers="1 2 3 4 5 7"
sharded="5 7"

# One of each optimizer and of each schedule, and dropout, whose random numbers depend on the sample.
settings=("--optimizer adadelta --lr 0.1 --schedule step --gamma 0.5" "--nesterov 1 --schedule cosine --warmup 3 --lr 0.01"
    "--optimizer adamw --beta1 0.8 --beta2 0.9 --epsilon 1e-4 --weight-decay 0.1 --schedule onecycle"
    "--label-smoothing 0.1 --lr 0.02 --warmup 9 --schedule step --step-epochs 2 --gamma 0.1" "--dropout 0.2")

# Prints a line "NAME|DEFAULT" for each option in these sources.
option_table() {
    sed -nE 's/^ *\{"([a-z0-9-]+)", OPTION_[A-Z_| ]*, [^,]+, (NULL|"([^"]*)"), .*/\1|\3/p' "$@"
}

@test "--help lists every option with its default, and no other" {
    local step program name default line
    for step in $trainers; do
        program=$(program_of $step)
        run --separate-stderr "$program" --help
        [ "$status" = 0 ]
        [ -z "$stderr" ]
        [ "$("$program" -h)" = "$output" ]
        option_table "$root/common/training/training_options.c" "$root"/0${step}_*/train.c >listed
        [ "$(grep -c '^  --' <<<"$output")" = $(($(wc -l <listed) + 1)) ] # and --help itself
        while IFS='|' read -r name default; do
            line=$(grep -E "^  --$name [ (]*[a-z0-9]" <<<"$output") || { echo "step $step: no --$name" && return 1; }
            [[ -z $default || $line == *"($default)" ]] || { echo "step $step: $line" && return 1; }
        done <listed
        grep -q '^  --help (or -h) ' <<<"$output"
    done
}

@test "any number of ranks has the loss curve of step 1, and steps 2, 3 and 4 compute the same bits" {
    local more ranks step steps parity=0
    # A layer of the second model has three parameters.
    for more in "" "--momentum 0" "--hidden 21,2,1,9" "--optimizer adam --weight-decay 0.1 --lr 1e-4" "${settings[@]}"; do
        rm -f one.bin
        parity=$((1 - parity))
        train 1 1 --csv one --snapshot one.bin $more
        [ "$(grep -cE '^[0-9]+,[0-9.]+,' one)" = 20 ]
        for ranks in 1 2 3 4; do
            steps="2 3 4 5 7"
            if [ -n "$more" ]; then # each pair of options, ranks and step once is enough
                [ $((ranks % 2)) = $parity ] && steps="2 3 4" || steps="5 7"
            fi
            rm -f bits*
            for step in $steps; do
                train $step $ranks --csv csv --snapshot bits$step $more
                same_curve one csv || { echo "step $step, $ranks ranks: $more" && return 1; }
            done
            [ -e bits2 ] || continue
            cmp bits2 bits3
            cmp bits2 bits4
            [ $ranks != 1 ] || cmp one.bin bits2
        done
    done
    for step in 3 4 5 7; do
        timeout 60 "$(program_of $step)" "${options[@]}" --csv csv $more >out
        grep -qx 'launcher  none: the only rank' out
        same_curve one csv
    done
}

@test "any number of ranks has the loss curve of step 1 on synthetic images" {
    local run
    options=(--data synthetic --hidden 16 --batch 6000 --lr 0.01 --epochs 1 --log-every 1)
    train 1 1 --csv one
    awk -F, 'END { exit !($6 > 20 && $6 < 99) }' one
    for run in "2 4" "3 3" "4 2" "5 3" "7 2"; do
        train $run --csv csv
        same_curve one csv || { echo "step and ranks: $run" && return 1; }
    done
}

@test "overlap, prefetch and random delays change no bit" {
    local step seed more
    for step in $trainers; do
        rm -rf right && mkdir right
        train $step 3 --snapshot right/s
        while read -r seed more; do
            [[ $more != *overlap* || $step != 1 ]] || continue
            [[ $more != *prefetch* || $sharded == *$step* ]] || continue
            rm -rf got && mkdir got
            delays=${seed#none} train $step 3 --snapshot got/s $more
            diff -r right got || { echo "step $step, seed $seed: $more" && return 1; }
        done <<'END'
none
none --overlap 0
none --prefetch 0
1
2 --overlap 0
3 --prefetch 0
END
    done
}

@test "a run that is stopped at any step and continued ends with the same bits" {
    local step stop more
    for step in $trainers; do
        for more in "" "${settings[step % 5]}"; do
            rm -rf whole parts && mkdir whole parts
            train $step 3 --snapshot whole/s --csv whole.csv $more
            rm -f parts.csv
            for stop in 1 4 5 7 19 0 0; do # after step 1, before, at and after the end of epoch 1, and before the last step
                train $step 3 --snapshot parts/s --csv parts.csv --max-steps $stop $more
            done
            grep -qx "resumed   parts/s: 4 epochs and 0 steps are done; $(text_of NOTHING_LEFT)" out
            diff -r whole parts || { echo "step $step: $more" && return 1; }
            diff <(cut -d, -f1-6,8 whole.csv) <(cut -d, -f1-6,8 parts.csv)
        done
    done
}

@test "after a signal to one rank, all save and stop, and the next run ends with the same bits" {
    local step signal place count more stopped
    while IFS='|' read -r step signal place count more; do
        rm -rf right s && mkdir right s
        train $step 4 --snapshot right/s $more
        program=$(watched $step) KILL_AT="$place $signal" train $step 4 --snapshot s/s $more
        drop_pids err
        [ ! -s err ]
        grep -qx "$(text_of STOPPED_BY_SIGNAL); saved" out
        [ "$(find s -type f | wc -l)" = "$count" ]
        stopped=$(sed -nE 's/^stopped after step ([0-9]+)$/\1/p' out)
        [ "$stopped" -gt 2 ]
        train $step 4 --snapshot s/s $more
        [ "$(awk '/^resumed/ { print 5 * $3 + $6 }' out)" = "$stopped" ]
        diff -r right s || { echo "step $step: $more" && return 1; }
    done <<'END'
4|10|1 gather_batch 4|1
4|15|1 gather_batch 4|1
5|10|1 ncclReduceScatter 9|5
5|15|2 ncclReduceScatter 26|5
7|15|1 ncclReduceScatter 9|5|--save sharded
7|10|2 ncclReduceScatter 26|1|--save full
END
}

@test "killing ranks at random moments changes no bit, and loses only unsaved work" {
    local step count seed more attempt epochs
    RANDOM=3
    options+=(--hidden "8,8" --log-every 100)
    while read -r step count seed more; do
        rm -rf right s && mkdir right s
        seed=${seed#none}
        start env ${seed:+CPU_DEVICE_CHAOS=$seed} "$launch" --nproc-per-node $count --max-restarts 100 \
            "$(program_of $step)" "${options[@]}" --epochs 1000000 --snapshot s/s $more
        for attempt in 0 1 2 3; do
            until_true 20 find_ranks $count $attempt
            sleep "$(printf 0.%03d $((RANDOM % 150)))"
            kill -9 "${ranks[RANDOM % count]}"
        done
        until_true 20 await_signals $count 4
        kill -USR1 "$pid"
        ends 0
        restarted 4
        awk '/^epoch .*images/ { split($2, at, "/"); last = at[1] }
            /^resumed/ { if ($3 < last - 1) { print last, "epochs were done, but: " $0; exit 1 } }' out
        train $step $count --epochs 1000000 --max-steps 1 --snapshot s/s $more
        epochs=$(sed -n 's/^resumed   s\/s: \([0-9]*\) .*/\1/p' out)
        train $step $count --epochs "$epochs" --save-every 1000000 --snapshot right/s $more
        diff -r right s || { echo "step $step: $epochs epochs" && return 1; }
    done <<'END'
3 2 none
3 3 7
4 3 none
5 4 none --batch 600
5 3 7 --batch 600
7 3 7 --batch 600 --save sharded
7 2 none --batch 600 --save full
END
    [ -z "$(ls -A "$TMPDIR")" ]
}

@test "each step continues the runs of each other step, with other numbers of ranks, on the same loss curve" {
    local i j chain=() done=0
    local -a steps
    read -ra steps <<<"$trainers"
    for ((i = 0; i < ${#steps[@]}; i++)); do # each step follows each other step once
        for ((j = i + 1; j < ${#steps[@]}; j++)); do
            chain+=("${steps[i]}" "${steps[j]}")
        done
    done
    options+=(--epochs 7)
    train 1 1 --csv right
    for i in "${chain[@]}"; do
        train "$i" $((done % 4 + 1)) --snapshot s --csv csv --max-steps $((done + 1))
        [ $done = 0 ] || grep -qE "^resumed   s: $((done / 5)) epochs? and $((done % 5)) steps? (is|are) done$" out
        done=$((done + 1))
    done
    train 1 1 --snapshot s --csv csv
    same_curve right csv
}

# form: prints the lines of out that step 1 prints, too, without their numbers and without those of the ranks and sizes.
form() {
    grep -vE '^(memory|ranks|launcher|sharding|costs|  )' out | sed -E 's/[0-9]+([.:][0-9]+)*/N/g'
}

@test "only rank 0 saves one file" {
    local step
    for step in 2 3 4; do
        rm -f log
        WATCH_LOG=log program=$(watched $step) train $step 3 --snapshot snapshot
        [ "$(grep saves log | sort | uniq -c | awk '{ print $1, $3 }')" = "5 0" ]
        [ "$(echo *)" = "err log out snapshot" ]
        rm snapshot
    done
}

@test "only rank 0 prints: the lines of step 1, and one about the ranks, the launcher and the shards" {
    local step word
    train 1 1 --log-every 2
    form >one
    for step in 2 3 4 5 7; do
        train $step 3 --log-every 2
        drop_pids err
        [ ! -s err ]
        diff one <(form)
        grep -qx 'ranks     global batch 120 = 3 ranks x 40' out
        [ $step = 2 ] || grep -qx "launcher  torchrun's variables" out
        [[ $sharded != *$step* ]] || [ "$(grep -c '^sharding  [a-z]' out)" = 1 ]
        for word in device memory model data training ranks; do
            [ "$(grep -c "^$word  *[^ ]" out)" = 1 ]
        done
    done
}

@test "a loss that is not finite ends the job with an error that says so" {
    local step ranks others
    for step in $trainers; do
        for ranks in 1 4; do
            delays=${ranks#1} refute train $step $ranks --hidden 64,64,64,64,64,64,64,64,64 --lr 1000
            drop_pids err
            # Each rank may say it. The launcher, or the parent of step 2, says which one failed first.
            grep -E '^error \(.*\): epoch 1, step [0-9]+: '"$(text_of NOT_FINITE)"': lower --lr, .* CPU_DEVICE_CHECK=1 ' err
            others=$(grep -v "$(text_of NOT_FINITE)" err || true)
            case $step in
            1) [ -z "$others" ] ;;
            2) [[ $others =~ ^error:\ rank\ [0-3]\ \(pid\ [0-9]+\)\ ended\ with\ exit\ code\ 1$ ]] ;;
            *) [[ $others =~ ^launch:\ rank\ [0-3]\ \(.*\)\ failed\ first,\ in\ attempt\ 0:\ exit\ code\ 1$ ]] ;;
            esac || { echo "step $step, $ranks ranks" && cat err && return 1; }
        done
    done
}

@test "any number of ranks can share any number of test images" {
    local count more ranks step
    mkdir few
    cp "$BATS_FILE_TMPDIR"/tiny/train-* few
    options+=(--data few --epochs 3)
    while read -r count more; do # the options are those of step 7
        { idx_header "$count" 2 4 && seq -f %07g "$count"; } >few/t10k-images-idx3-ubyte
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >few/t10k-labels-idx1-ubyte
        train 1 1 --csv right
        for ranks in 2 3 4; do
            for step in 2 5; do
                train $step $ranks --csv csv
                same_curve right csv
            done
            train 7 $ranks --csv csv $more
            same_curve right csv
        done
    done <<'END'
1
2 --strategy grad
3 --strategy none --unit-bytes 1400
7 --accumulate 10
50 --accumulate 10 --prefetch 0
END
}

@test "a model that is too large for step 4 trains on four ranks of the steps with shards" {
    local step
    export CPU_DEVICE_MEMORY=10M
    options+=(--hidden "1000,1000" --optimizer adam --lr auto --epochs 1)
    for step in 4 "7 4 --strategy none"; do
        [ "$step" != 4 ] || step="4 4"
        refute train $step
        grep -qE '^error \(.*, rank [0-3]\): .*out of device memory: asked for 8.2 MB of optimizer, 2.3 MB of 10.5 MB ' err
    done
    CPU_DEVICE_MEMORY=1G train 4 1 --csv right
    for step in $sharded; do
        train $step 4 --csv csv
        near 5 0.001 right csv
    done
    [ "$(awk '$1 == "peak" { print $2 }' out)" -lt 10000000 ]
}

@test "each rank refuses a wrong option in one line" {
    local step more text
    while IFS='|' read -r step more text; do
        start_ranks 3 "$(program_of $step)" $more
        ranks_end 20 2 0 1 2
        for rank in 0 1 2; do
            rank_says $rank ".*$(with_texts "$text").*--help lists the options$"
        done
    done <<'END'
3|--batch 121|--batch 121 {INDIVISIBLE} 3 ranks; 120 and 123 are;
4|--step-timeout 0|--step-timeout 0: want a number from
5|--batch 121|--batch 121 {INDIVISIBLE} 3 ranks; 120 and 123 are;
5|--prefetch 2|--prefetch 2: want a number from 0 to 1
5|--strategy full|--strategy
7|--strategy zero|--strategy zero: want one of: full, grad, hybrid, none;
7|--precision fp16|--precision fp16: want one of: fp32, bf16;
7|--save half|--save half: want one of: sharded, full;
7|--batch 121|--batch 121 {INDIVISIBLE} 3 ranks x 1 part; 120 and 123 are;
7|--accumulate 7|--batch 120 {INDIVISIBLE} 3 ranks x 7 parts; 105 and 126 are;
7|--accumulate 50|--batch 120 {INDIVISIBLE} 3 ranks x 50 parts; 150 and 300 are;
7|--accumulate 0|--accumulate 0: want a number from 1
7|--clip -1|--clip -1: want a number from 0
7|--prefetch 2|--prefetch 2: want a number from 0 to 1
7|--recompute yes|--recompute yes: want a whole number
7|--unit-bytes 1K|--unit-bytes 1K: want a whole number
END
}

@test "ranks with different options do not start, and all name the rank and option that differ" {
    local step name value other
    cat >with_odd <<'END'
#!/bin/bash
[ $RANK != 2 ] || exec $PROGRAM "$@" $ODD
exec $PROGRAM "$@"
END
    chmod +x with_odd
    while IFS='|' read -r step name value other; do
        PROGRAM=$(program_of $step) ODD="--$name $other" start_ranks 3 ./with_odd "--$name" "$value"
        ranks_end 20 1 0 1 2
        for rank in 0 1 2; do
            rank_says $rank ".*rank 2 on [^ ]+ has \"--$name ${other}\", rank 0 has \"--$name ${value}\": do all"
        done
    done <<'END'
5|prefetch|1|0
7|strategy|full|grad
7|precision|fp32|bf16
7|accumulate|1|2
7|unit-bytes|0|1400
7|prefetch|1|0
7|clip|0.5|0
7|save|full|sharded
7|optimizer|adam|adamw
END
    # These options may differ.
    train 1 1 --csv right
    PROGRAM=$(program_of 5) ODD="--overlap 0" start_ranks 3 ./with_odd --csv csv
    ranks_end 20 0 0 1 2
    same_curve right csv
}
