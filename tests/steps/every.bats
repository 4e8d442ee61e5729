#!/usr/bin/env bats
# What every step's trainer must do: the questions are the same for all steps, and the files of the steps ask the others.
# continue.bats asks what becomes of a run that ends early.
# shellcheck disable=SC2046,SC2086 # options are lists of words
load ../helpers
load every_step
load trainers

@test "any number of ranks has the loss curve of step 1, and steps 2, 3 and 4 compute the same bits" {
    number=0
    # A layer of the second model has three parameters.
    for more in "" "--momentum 0" "--hidden 21,2,1,9" "--optimizer adam --weight-decay 0.1 --lr 1e-4" "${settings[@]}" \
        "$gpt --dropout 0.2 --optimizer adamw --weight-decay 0.5 --lr 1e-3"; do
        rm -f one.bin
        number=$((number + 1))
        train 1 1 --csv one --snapshot one.bin $more
        [ "$(grep -cE '^[0-9]+,[0-9.]+,' one)" = 20 ]
        for ranks in 1 2 3 4; do
            steps="$same_bits $other_bits"
            if [ -n "$more" ]; then # one number of ranks for each of these options is enough
                case $(((number + ranks) % 4)) in
                0) steps=$same_bits ;;
                2) steps=$other_bits ;;
                *) continue ;;
                esac
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
    for step in 3 4 $other_bits; do
        timeout 60 "$(program_of $step)" "${options[@]}" --csv csv $more >out
        grep -qx 'launcher  none, so this is the only rank; .*/launch starts several' out
        same_curve one csv
    done
}

# bats test_tags=gpu
@test "ranks that share a GPU have the loss curve of step 1" {
    export CPU_DEVICES=1 SHARE_GPUS=1 # on a machine with several GPUs, each has fewer ranks
    train 1 1 --csv one
    for step in $same_bits $other_bits; do
        for ranks in 2 4; do
            train $step $ranks --csv csv
            on_gpu || grep -q "^sharing   $ranks ranks share 1 GPU: .* NCCL_MAX_CTAS=$((16 / ranks))" out
            same_curve one csv || { echo "step $step, $ranks ranks" && return 1; }
        done
    done
}

# bats test_tags=gpu
@test "ranks that share a GPU continue the runs of other steps, also as 2 replicas x 2 stages x 2 parts" {
    export CPU_DEVICES=1 SHARE_GPUS=1
    train 1 1 --csv right
    train 2 4 --snapshot s --csv csv --max-steps 3
    train 9 8 --tensor 2 --stages 2 --snapshot s --csv csv --max-steps 7
    grep -qE "^pipeline .* 2 stages, 2 replicas," out
    train 5 2 --snapshot s --csv csv --max-steps 11
    train 1 1 --snapshot s --csv csv
    same_curve right csv
}

@test "ranks that share a GPU go on after one of them is killed" {
    export CPU_DEVICES=1 SHARE_GPUS=1
    CPU_DEVICE_CHECK=1 train 4 4 --snapshot right
    killed_once 4 4 "1 ncclAllReduce 14" --snapshot got
    cmp right got
}

@test "overlap, prefetch and random delays change no bit" {
    for step in $trainers; do
        ranks=$((3 + (step == 9)))
        rm -rf right && mkdir right
        train $step $ranks --snapshot right/s
        while read -r seed more; do
            [[ $more != *overlap* || $step != 1 ]] || continue
            [[ $more != *prefetch* || $sharded == *$step* ]] || continue
            rm -rf got && mkdir got
            delays=$seed train $step $ranks --snapshot got/s $more
            diff -r right got || { echo "step $step, seed $seed: $more" && return 1; }
        done <<'END'
1
2 --overlap 0
3 --prefetch 0
END
    done
}

# form: prints the lines of out that step 1 prints, too, without their numbers and without those of the ranks and sizes.
form() {
    grep -vE '^(memory|ranks|launcher|sharding|pipeline|stages|tensor|costs|  )' out | sed -E 's/[0-9]+([.:][0-9]+)*/N/g'
}

@test "only rank 0 prints: the lines of step 1, and one about the ranks, the launcher and the shards" {
    train 1 1 --log-every 2
    form >one
    for step in $same_bits $other_bits; do
        train $step 3 --log-every 2
        drop_pids err
        [ ! -s err ]
        diff one <(form)
        [[ $step == [89] ]] || grep -qx 'ranks     global batch 120 = 3 ranks x 40' out
        [ $step = 2 ] || grep -qx "launcher  RANK and WORLD_SIZE, as torchrun sets them" out
        [[ $sharded != *$step* ]] || [ "$(grep -c '^sharding  [a-z]' out)" = 1 ]
        for word in device memory model data training ranks; do
            [ "$(grep -c "^$word  *[^ ]" out)" = 1 ]
        done
    done
}

@test "a loss that is not finite ends the job with an error that says so" {
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
        # An epoch is one step here, so the losses of the test images are the first to see the new parameters.
        refute train $step 2 --hidden 64,64,64,64,64,64,64,64,64 --lr 1000 --batch 640 --epochs 9
        grep -qE "epoch [1-9], step 1: $(text_of NOT_FINITE) in evaluation:" err || { cat err && return 1; }
    done
}

@test "any number of ranks can share any number of test images" {
    options+=(--data few --epochs 3)
    while read -r count ranks more; do # the options are those of step 7
        tiny_data few 640 "$count"
        train 1 1 --csv right
        for step in 2 $other_bits; do
            train $step $ranks --csv csv $([ $step != 7 ] || echo "$more")
            same_curve right csv
        done
    done <<'END'
1 2 --strategy grad
3 4 --strategy none --unit-bytes 1400
50 3 --accumulate 10 --prefetch 0
END
}

@test "a model that is too large for step 4 trains on four ranks of the steps with shards" {
    export CPU_DEVICE_MEMORY=10M
    options+=(--hidden "1000,1000" --optimizer adam --lr auto --epochs 1)
    for step in 4 "7 4 --strategy none"; do
        [ "$step" != 4 ] || step="4 4"
        refute train $step
        grep -qE '^error \(.*, rank [0-3]\): .*'"$(text_of OUT_OF_MEMORY)"': asked for 8.2 MB of optimizer, 2.3 MB of 10.5 MB ' err
    done
    CPU_DEVICE_MEMORY=1G train 4 1 --csv right
    for step in $sharded; do
        train $step 4 --csv csv
        near 5 0.001 right csv
    done
    [ "$(awk '$1 == "peak" { print $2 }' out)" -lt 10000000 ]
}

# refuses STEP CODE PATTERN OPTION...: step 1, the parent of step 2 and each of three ranks of the other steps must end with
# this code and print one line that has the pattern.
refuses() {
    local rank count=3 more=()
    [ "$1" -gt 2 ] || count=1
    [ "$1" != 2 ] || more=(--nproc 3)
    start_ranks $count "$(program_of "$1")" "${more[@]}" "${@:4}"
    for ((rank = 0; rank < count; rank++)); do
        ranks_end 20 "$2" $rank || return
        if [ "$(wc -l <err.$rank)" != 1 ] || ! grep -qE "^error( \(.*\))?: .*$3" err.$rank; then
            echo "wanted one line of rank $rank of step $1 with: $3" && cat err.$rank && return 1
        fi
    done
}

# The unit tests damage each part of these files, and try more values of options.
@test "wrong options, images and snapshots are refused in one line by each rank, and no file changes" {
    train 1 1 --max-steps 7 --snapshot good
    cp good damaged && flip damaged 240
    cp -r "$tiny" bad && flip bad/t10k-labels-idx1-ubyte 2
    cp -r "$tiny" other && flip other/train-images-idx3-ubyte 16
    cp -r "$tiny" label && printf '\5' | dd of=label/t10k-labels-idx1-ubyte bs=1 seek=8 conv=notrunc status=none
    tiny_data fewer 640 99
    tiny_data small 640 100 4 4
    cp -r "$tiny" same
    contents | grep -v ' ./\(out\|err\)' >../before
    while IFS='|' read -r steps code text more; do
        for step in $steps; do
            refuses $step $code "$(with_texts "$text")" ${more/GPT/$gpt}
        done
    done <<'END'
1 2 3|2|unknown option --foo;.*--help lists the options$|--foo 1
1 2|2|--batch 642: the training set has only 640 samples|--batch 642
1|2|--nesterov 1: adam has no momentum, only --optimizer sgd has|--nesterov 1 --optimizer adam
1|2|--nesterov 1 --momentum 0: want a momentum above 0|--nesterov 1 --momentum 0
1|2|--beta1 1: want a number below 1|--optimizer adam --beta1 1
1|2|--warmup 5: --schedule onecycle has its own warm-up, 30 % of all steps|--schedule onecycle --warmup 5
1|2|--warmup 20: want fewer steps than training has, which are 20|--schedule cosine --warmup 20
1|2|--optimizer lion: want one of: sgd, adam, adamw, adadelta|--optimizer lion
1|2|--augment Crop: want none, crop, flip, or crop,flip;|--augment Crop
1|2|--augment crop: shifts of 4 pixels need images of at least 5 x 5 pixels, and these have 4 x 4;|--data small --augment crop
1|2|--model cnn: images have 4 x 4 pixels, and the model needs 6 x 6;|--data small --model cnn
1|2|--depth 9: want 8, 14, 18 or 20;|--model resnet --depth 9
1|2|--dropout 0.5: a resnet has no dropout, want 0;|--data small --model resnet --dropout 0.5
3|2|--batch 121 {INDIVISIBLE} 3 ranks; 120 and 123 are;|--batch 121
3|2|--join-timeout 0: want a number from 1|--join-timeout 0
5|2|unknown option --strategy|--strategy full
7|2|--strategy zero: want one of: full, grad, hybrid, none;|--strategy zero
7|2|--batch 121 {INDIVISIBLE} 3 ranks x 1 micro-batch; 120 and 123 are;|--batch 121
7|2|--batch 120 {INDIVISIBLE} 3 ranks x 7 micro-batches; 105 and 126 are;|--accumulate 7
8|2|--stages 2: 3 ranks cannot be divided into pipelines of 2 stages x 1 rank;|--stages 2
8|2|--stages 3: the model has only 2 layers, and each stage needs one|--stages 3 --hidden 8
8|2|--batch 120 {INDIVISIBLE} 1 replica x 7 micro-batches; 119 and 126 are|--micro-batches 7
8|2|--batch 121 {INDIVISIBLE} 3 replicas; 120 and 123 are|--batch 121 --stages 1
9|2|--tensor 2: 3 ranks cannot be divided into groups of 2|--tensor 2
9|2|--tensor 3: want a divisor of the 32 outputs of a dense layer|
9|2|--tensor 3: want a divisor of the 7 outputs of a dense layer|--hidden 9,4,7
9|2|--tensor 3: --model resnet has no pairs of dense layers, and only they can be divided|--model resnet --data blank:480
9|2|--tensor 3: --sequence 1 divides tokens, and --model mlp has none|--sequence 1
9|2|--tensor 3: want a divisor of the 2 heads|GPT
9|2|--tensor 3: --sequence 1 needs a divisor of the 16 tokens|GPT --width 30 --heads 3 --sequence 1
9|2|--stages 3: 3 ranks cannot be divided into pipelines of 3 stages x 3 ranks;|--stages 3 --hidden 9,4,6
1 2 3|1|make data|--data none
1 2 3|1|bad/t10k-labels-idx1-ubyte|--data bad
1 2 3|1|snapshot damaged is corrupt: {WRONG_CHECKSUM}|--snapshot damaged
1 2 3|1|snapshot good holds mlp 8-32-22-14-10|--snapshot good --hidden 8,9
1 2 3|1|snapshot good {TRAINED_WITH} 1|--snapshot good --seed 2
1 2 3|1|snapshot good was trained with "checksum of the training images: .*", and the data here has "checksum of|--snapshot good --data other
1|1|with "checksum of the test labels: .*", and the data here has "checksum of|--snapshot good --data label
1|1|with "number of test images: 100", and the data here has "number of test images: 99"|--snapshot good --data fewer
END
    contents | grep -v ' ./\(out\|err\)' | diff ../before -
    train 1 1 --snapshot good --data same # the same images in another folder
    grep -qx 'resumed   good: 1 epoch and 2 steps are done' out
    gzip -n same/*
    train 1 1 --snapshot good --data same --epochs 5
}

@test "an output that cannot be written and too little memory end the job, and an earlier snapshot stays" {
    mkdir s.tmp
    train 1 1 --max-steps 3 --snapshot s.good
    echo 1 >busy && exec 7<busy && flock 7 # as another run does
    for step in 1 2 3; do
        while IFS='|' read -r memory text more; do
            cp s.good s
            CPU_DEVICE_MEMORY=$memory refute train $step 3 $more
            drop_pids err
            grep -qE "^error \(.*\): .*$(with_texts "$text")" err || { echo "step $step: $more" && return 1; }
            run ! grep -vE '^(error: rank |launch: rank |error \(.*\): )' err
            cmp s.good s
            [ "$(find . -type f | sort | xargs)" = "./busy ./err ./out ./s ./s.good" ]
        done <<'END'
1G|{CANNOT_WRITE} none/s: No such file|--snapshot none/s
1G|{CANNOT_WRITE} s: Is a directory|--snapshot s
1G|none/csv: No such file|--csv none/csv
1G|--csv busy: another run writes this file|--csv busy
1G|cannot write the --csv file: No space left on device|--csv /dev/full
100K|KB of data, |--data synthetic
500K|of gradients, |--hidden 250,250
END
    done
    [ "$(cat busy)" = 1 ]
}

# Rank 2 has the odd option, too.
@test "ranks with other options or data do not start, and all name the rank and what differs" {
    cat >with_odd <<'END'
#!/bin/bash
[ $RANK != 2 ] || exec "$PROGRAM" "$@" $ODD
exec "$PROGRAM" "$@"
END
    chmod +x with_odd
    cp -r "$tiny" other && flip other/train-images-idx3-ubyte 5135
    tiny_data few 640 99
    while IFS='|' read -r steps base odd has0 has2; do
        for step in $steps; do
            PROGRAM=$(program_of $step) ODD=$odd start_ranks 3 ./with_odd $base
            ranks_end 20 1 0 1 2
            for rank in 0 1 2; do
                rank_says $rank ".*rank 2 on [^ ]+ has \"${has2:-$odd}\", rank 0 has \"${has0:-$base}\": do all"
            done
        done
    done <<'END'
4|--lr 0.01|--lr 0.02
4|--hidden 8,8|--hidden 8,9
5|--prefetch 1|--prefetch 0
7|--strategy full|--strategy grad
7|--clip 0.5|--clip 0
8|--pipeline gpipe|--pipeline 1f1b
9|--hidden 9,4,6 --tensor 1|--tensor 3|--tensor 1
9|--tensor 1|--sequence 1|--sequence 0
4||--data few|number of test images: 100|number of test images: 99
3 4 5 7 8||--data other|checksum of the training images: .*|checksum of the training images: [0-9a-f]{8}
9|--tensor 1|--data other|checksum of the training images: .*|checksum of the training images: [0-9a-f]{8}
END
    # These options may differ.
    train 1 1 --csv right
    PROGRAM=$(program_of 5) ODD="--overlap 0" start_ranks 3 ./with_odd --csv csv
    ranks_end 20 0 0 1 2
    same_curve right csv
}
