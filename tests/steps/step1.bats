#!/usr/bin/env bats
# Tests of step 1 as a user sees it: its results, its output, its files and its exit codes.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    need_train
    tiny_data "$BATS_FILE_TMPDIR/tiny"
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    tiny=$BATS_FILE_TMPDIR/tiny
}

# Three epochs of ten steps on the tiny images; the time limit only ends a run that hangs.
train() {
    timeout 120 "$TRAIN" --data "$tiny" --hidden 8,8 --batch 64 --epochs 3 "$@"
}

# Prints a line "name type least most" for each option.
option_table() {
    sed -nE 's/^ *\{"([a-z0-9-]+)", OPTION_([A-Z]+)[^,]*, [^,]+, ("[^"]*"|NULL), ([^,]+), ([^,]+),.*/\1 \2 \4 \5/p' \
        "$root/common/training/training_options.c"
}

epoch_line='^epoch [0-9]+/[0-9]+  loss [0-9]+\.[0-9]{4}  test loss [0-9]+\.[0-9]{4}  accuracy [0-9]{1,3}\.[0-9]{2}%  [0-9]+\.[0-9]{2} s  [0-9]+ images/s$'

# reaches EPOCHS MNIST FASHION: training with the default options ends with at least this accuracy on the images that are here.
reaches() {
    if [ -d "$root/data/mnist" ]; then
        data=mnist least=$2
    elif [ -d "$root/data/fashion-mnist" ]; then
        data=fashion-mnist least=$3
    else
        skip "no images in data/: make data fetches them"
    fi
    timeout 1200 "$TRAIN" --data "$root/data/$data" --epochs "$1" >log
    tail -n 1 log
    [[ $(tail -n 1 log) =~ $epoch_line ]]
    [[ $(tail -n 1 log) == "epoch $1/$1 "* ]]
    awk -v least="$least" 'END { exit !($9 + 0 >= least) }' log
}

@test "one epoch with the default options learns real images" {
    reaches 1 95 78
}

# bats test_tags=test-all
@test "the default options reach the expected accuracy on real images" {
    reaches 10 97.5 87 # of one seed; the mean of five is above 98 on MNIST
}

@test "the line of an epoch has the agreed format and the numbers of the CSV file" {
    train --epochs 1 --csv csv >log
    line=$(tail -n 1 log)
    [[ $line =~ $epoch_line ]]
    said=$(sed -E 's|^epoch 1/1  loss (.*)  test loss (.*)  accuracy (.*)%  .*|\1 \2 \3|' <<<"$line")
    [ "$said" = "$(tail -n 1 csv | awk -F, '{ printf "%.4f %.4f %.2f", $4, $5, $6 }')" ]
}

@test "progress is a bar on a terminal, and plain lines elsewhere" {
    train --epochs 1 --log-every 4 >log
    [ "$(grep -c '^epoch' log)" = 4 ]
    grep -qxE 'epoch 1/1  step 8/10  loss [0-9.]+  [0-9]+ images/s  0:00:00 left' log
    run ! grep -q $'[\r\033]' log

    need_terminal
    declare -fx train
    export tiny
    SHELL=$BASH script -qec "bash -c 'train --epochs 1 --log-every 4'" /dev/null >terminal </dev/null
    grep -qE $'\r\033\\[K''epoch 1/1  \[#+ +\] 8/10  loss [0-9.]+  [0-9]+ images/s  0:00:00 left' terminal
    grep -qE $'\r\033\\[K''epoch 1/1  loss .*images/s' terminal
    run ! grep -q ' step ' terminal
}

@test "progress is plain lines on a terminal that mpirun created" {
    need_terminal
    declare -fx train
    export tiny
    SHELL=$BASH script -qec "setsid --wait bash -c 'train --epochs 1 --log-every 4'" /dev/null >terminal </dev/null
    grep -q '^epoch 1/1  step 8/10  loss ' terminal
    run ! grep -q $'\033' terminal
}

@test "the progress bar fits the terminal, and other lines do not share its line" {
    need_terminal
    declare -fx train
    export tiny
    SHELL=$BASH script -qec "stty cols 84; bash -c 'train --epochs 2 --max-steps 17'" /dev/null >terminal </dev/null
    [ "$(tr '\r' '\n' <terminal | grep -a '\[#' | sed 's/^\x1b\[K//' | awk 'length > 83' | wc -l)" = 0 ]
    grep -qaE '^.*\[#+ +\] 7/10  loss .*left.?$' terminal # with an end
    grep -qaE '^stopped after step 17.?$' terminal
    SHELL=$BASH script -qec "bash -c 'train --hidden 64,64,64,64,64,64,64,64 --lr 1000 --log-every 1'" /dev/null >terminal </dev/null || true
    grep -qaE $'^(\r\033\\[K)?error \\(.*'"$(text_of NOT_FINITE)" terminal
}

@test "the CSV file has a line per report and per epoch, and the loss of an epoch is a mean" {
    train --epochs 2 --csv csv --log-every 4
    [ "$(head -n 1 csv)" = step,loss,epoch,epoch_loss,test_loss,accuracy,seconds,lr ]
    [ "$(cut -d, -f1 csv | tail -n +2 | tr '\n' ' ')" = "4 8 10 10 14 18 20 20 " ]
    [ "$(grep -cE '^[0-9]+,[0-9.]+,,,,,,0.05$' csv)" = 6 ]
    [ "$(grep -cE '^[0-9]+,,[12],[0-9.]+,[0-9.]+,[0-9]+\.[0-9]{2},[0-9]+\.[0-9]{3},$' csv)" = 2 ]

    train --epochs 2 --csv csv --log-every 1
    awk -F, 'NR > 1 && $2 { sum += $2 }
        NR > 1 && $3 { error = sum / 10 - $4; if (error * error < 1e-14) right++; sum = 0 }
        END { exit right != 2 }' csv
}

@test "a run that ends within an epoch has the same bits, wherever it was stopped before" {
    train --max-steps 25 --snapshot whole
    for stop in 12 22 25; do
        train --max-steps $stop --snapshot parts
    done
    cmp whole parts
    train --snapshot parts | grep '^resumed   parts: 2 epochs and 5 steps are done'
}

@test "equal runs save equal snapshots, and another seed saves a different one" {
    train --snapshot a
    train --snapshot b
    cmp a b
    # The sums of losses within an epoch, too.
    for run in part again; do
        train --max-steps 7 --snapshot $run
    done
    cmp part again
    train --snapshot c --seed 2
    # The header holds the seed itself, and the end a checksum of it, so only the values count.
    values() { tail -c +1017 "$1" | head -c -4; }
    run ! cmp -s <(values a) <(values c)
}

@test "--tf32 changes the losses slightly, and the banner says so" {
    train --log-every 1 --csv exact --max-steps 3 >/dev/null
    train --log-every 1 --csv rounded --max-steps 3 --tf32 1 >out
    grep -qE '^training  .*, tf32, seed ' out
    run ! cmp -s exact rounded
    paste -d, exact rounded | awk -F, '$2 + 0 > 0 { n++; d = $2 - $10; worst = d > worst ? d : -d > worst ? -d : worst }
        END { print n, worst; exit !(n == 3 && worst > 0 && worst < 1e-3) }'
}

@test "starting a finished run again does nothing" {
    train --snapshot finished --csv csv
    before=$(contents)
    run train --snapshot finished --csv csv
    [ "$status" = 0 ]
    grep -qx "resumed   finished: 3 epochs and 0 steps are done; $(text_of NOTHING_LEFT)" <<<"$output"
    [[ $output != *$'\n'epoch* ]]
    [ "$(contents)" = "$before" ]
}

# Starts a run that would never end, with its output at $log and its process in $pid. An epoch is one training step on few
# parameters, so the run spends nearly all its time on saving.
start() {
    exec {log}< <(exec "$TRAIN" --data "$tiny" --hidden 1 --batch 640 --epochs 1000000 --snapshot killed "$@" \
        2>&1 3>&-)
    pid=$!
}

# Reads the output up to the result of epoch $1 (or of any epoch).
await_epoch() {
    local line
    while read -r -t 60 -u "$log" line; do
        [[ $line =~ ^epoch\ ${1:-[0-9]+}/.*accuracy ]] && return
    done
    echo "the run ended or hung: $line" && return 1
}

stop() {
    kill -9 "$pid"
    wait "$pid" || [ $? = 137 ]
    exec {log}<&-
}

# Prints the number of epochs in the snapshot, which must load.
epochs_saved() {
    cp killed copy
    train --hidden 1 --batch 640 --epochs 1 --snapshot copy | sed -n 's/^resumed .* \([0-9]*\) epochs\? and 0 .*/\1/p'
}

@test "after kill -9 at a random moment, the run continues from its snapshot" {
    RANDOM=1
    before=0
    for _ in {1..10}; do
        start
        await_epoch
        await_epoch # so the one before is saved
        sleep "$(printf 0.0%03d $((RANDOM % 300)))"
        stop
        saved=$(epochs_saved)
        [ "$saved" -gt "$before" ]
        before=$saved
    done
    for snapshot in killed whole; do
        train --hidden 1 --batch 640 --epochs $((saved + 3)) --snapshot $snapshot --save-every 1000000
    done
    cmp whole killed
    [ ! -e killed.tmp ]
}

@test "--save-every sets the number of epochs between snapshots" {
    start --save-every 7
    await_epoch 24
    stop
    saved=$(epochs_saved)
    [ "$saved" -ge 21 ]
    [ $((saved % 7)) = 0 ]
}

# The program must end with exit code 2, one line that names the option, nothing on stdout and no file.
wrong_usage() { # OPTION ARGUMENT...
    fails 2 "$1" "$TRAIN" --snapshot snapshot --csv csv "${@:2}"
    [ -z "$output" ]
    [ "$(ls -A)" = "" ]
}

# bats test_tags=test-all
@test "every option accepts the ends of its range" {
    # --max-steps 1 and a batch that fits keep the runs short. A warm-up must be shorter than training.
    while read -r name type least most; do
        [[ $type != TEXT && $type != FLAG ]] || continue
        for value in "$least" "$(awk "BEGIN { printf \"%.0f\", $most }")"; do
            [[ $name$value =~ ^(batch1000000|warmup1000000000000)$ ]] && continue
            train --max-steps 1 --lr 1e-12 --save-every 1 "--$name=$value" >/dev/null ||
                { echo "--$name $value was refused" && return 1; }
            [ "$name" != max-steps ] || break
        done
    done < <(option_table)
}

@test "unknown options, words and models are refused with exit code 2" {
    wrong_usage --foo --foo 1
    wrong_usage --epoch --epoch 1
    wrong_usage --epochsx --epochsx 1
    wrong_usage -H -H
    wrong_usage word word
    wrong_usage -- --
    wrong_usage --model --data "$tiny" --model foo
}

@test "--hidden accepts only widths with commas between them" {
    for hidden in 0 -1 8x "8," "8,,8" "8 8" 65537 "$(seq -s, 17)"; do
        wrong_usage --hidden --data "$tiny" --hidden "$hidden"
    done
    train --hidden "$(seq -s, 16)" --epochs 1 | grep -q '^model     mlp 8-1-2-3-4-5-6-7-8-9-10-11-12-13-14-15-16-10,'
}

# The program must end with exit code 1 and one line with the text, and must leave every file unchanged.
refused() { # TEXT ARGUMENT...
    local before
    before=$(contents)
    fails 1 "$1" train "${@:2}"
    [ "$(contents)" = "$before" ]
}

# A copy of the tiny images to spoil.
fresh_data() {
    rm -rf bad
    cp -r "$tiny" bad
}

@test "if images are missing, the message suggests make data" {
    refused "make data" --data none
    mkdir empty
    refused "make data" --data empty
    fresh_data
    rm bad/t10k-labels-idx1-ubyte
    refused "bad/t10k-labels-idx1-ubyte" --data bad
}

# tests/unit/test_data.c and tests/unit/test_snapshot.c damage each part of these files.
@test "compressed images give the same bits, and damaged images are refused" {
    fresh_data
    train --data bad --snapshot plain
    gzip -n bad/*
    train --data bad --snapshot zipped
    cmp zipped plain
    flip bad/train-images-idx3-ubyte.gz 2
    refused bad/train-images-idx3-ubyte.gz --data bad
    fresh_data
    truncate -s -1 bad/t10k-labels-idx1-ubyte
    refused bad/t10k-labels-idx1-ubyte --data bad
}

@test "damaged snapshots are refused and not changed" {
    train --max-steps 15 --snapshot good
    for damage in "truncate -s -1 bad" "flip bad 16" "flip bad 1016"; do
        cp good bad
        $damage
        refused "bad" --snapshot bad
    done
    cp good bad
    printf '\003' | dd of=bad bs=1 seek=8 conv=notrunc status=none
    refused "version 3" --snapshot bad
    refused "mlp 8-8-8-10" --snapshot good --hidden 8,9
    refused "--seed 1" --snapshot good --seed 2
    refused "--batch 64" --snapshot good --batch 32
    refused "no snapshot" --snapshot "$tiny"
    train --snapshot good
}

@test "a snapshot of other images is refused, and both are named" {
    train --max-steps 15 --snapshot good
    fresh_data
    flip bad/train-images-idx3-ubyte 16
    refused "snapshot good was trained with 640 images of $tiny (checksum 9a9e1eed), not with 640 of bad (checksum " \
        --snapshot good --data bad
    tiny_data bad 320 100
    refused "was trained with 640 images of $tiny (checksum 9a9e1eed), not with 320 of bad (checksum " --snapshot good \
        --data bad
    fresh_data
    train --data bad --snapshot good >log # the same images in another folder
    grep -q '^resumed   good: 1 epoch and 5 steps are done$' log
    [ "$(grep -c '^note' log)" = 0 ]
}

# Continues the snapshot of a run with these options with those after it, until a slash. Then prints the note about them.
note() {
    local before=()
    while [ "$1" != / ]; do
        before+=("$1")
        shift
    done
    rm -f s
    train --max-steps 5 --snapshot s "${before[@]}" >log && train --max-steps 7 --snapshot s "${@:2}" >log &&
        sed -n 's/^note      differs from the snapshot: //p' log
}

@test "a run that continues with other settings says so, and goes on" {
    rate='sgd, lr 0.05, momentum 0.9'
    [ -z "$(note / --log-every 1 --epochs 7 --csv csv --save-every 2)" ]
    [ -z "$(note --lr 0.1 --dropout 0.5 / --dropout 0.5 --lr 0.1)" ]
    [ "$(note / --lr 0.1)" = "sgd, lr 0.1, momentum 0.9, --batch 64; before: $rate, --batch 64" ]
    [ "$(note / --momentum 0)" = "sgd, lr 0.05, momentum 0, --batch 64; before: $rate, --batch 64" ]
    [ "$(note --weight-decay 0.1 /)" = "$rate, --batch 64; before: $rate, weight decay 0.1, --batch 64" ]
    [[ $(note / --schedule cosine) == "sgd, lr 0.05 (cosine to 0 after step 30), "*"; before: $rate, --batch 64" ]]
    [[ $(note --schedule cosine / --schedule cosine --epochs 4) == *"step 40)"*"step 30)"* ]]
    for option in "--dropout 0.5" "--augment flip" "--label-smoothing 0.1" "--tf32 1"; do
        # shellcheck disable=SC2086 # two words
        [[ $(note / $option) == "$rate"*" $option"*"; before: $rate, --batch 64" ]]
        # shellcheck disable=SC2086
        [[ $(note $option /) == "$rate, --batch 64; before: $rate"*" $option"* ]]
    done
}

@test "a snapshot that cannot be written ends the run at its start" {
    refused "none/snapshot" --snapshot none/snapshot
    [[ $output != *$'\n'epoch* ]]
}

# Runs commands in ./disk, a file system of 64 KiB of their own, which vanishes with them.
on_small_disk() {
    export tiny
    export -f train
    mkdir -p disk
    unshare -m bash -c "mount -t tmpfs -o size=64k none disk && $1"
}

@test "if the disk is full, the earlier snapshot stays" {
    on_small_disk true || skip "no file system can be mounted here"
    # 43 KB: one fits, and a second beside it does not.
    train --hidden 64,64 --max-steps 5 --snapshot good
    # shellcheck disable=SC2016 # expanded there
    fails 1 "No space left on device" on_small_disk \
        'cp good disk/s && { train --hidden 64,64 --snapshot disk/s; code=$?; cp -r disk after; exit $code; }'
    cmp good after/s
    [ "$(ls after)" = s ]
}

@test "if the disk is read-only, the snapshot stays" {
    on_small_disk true || skip "no file system can be mounted here"
    train --max-steps 5 --snapshot good
    # shellcheck disable=SC2016
    fails 1 "Read-only file system" on_small_disk 'cp good disk/s && mount -o remount,ro disk &&
        { train --snapshot disk/s; code=$?; cp -r disk after; exit $code; }'
    cmp good after/s
    [ "$(ls after)" = s ]
}

@test "the message names a CSV file that cannot be written" {
    refused "none/csv" --csv none/csv
}

@test "without enough device memory, the message names the requested and the free size" {
    CPU_DEVICE_MEMORY=1M refused "asked for 47.0 MB of data, 1.0 MB of 1.0 MB are left" --data synthetic
    # 300 KB hold the data and the first 268 KB of parameters, and not the gradients beside them.
    CPU_DEVICE_MEMORY=300K refused "of gradients, " --hidden 250,250
}

@test "a batch larger than the training set is refused" {
    train --batch 640
    refused "--batch 641: the training set has only 640 samples" --batch 641
}

@test "a run that diverges ends with an error and keeps the last good snapshot" {
    deep=64,64,64,64,64,64,64,64,64 # each layer makes large values larger
    fails 1 "$(text_of NOT_FINITE)" train --hidden $deep --lr 1e3 --snapshot diverged --save-every 1000
    [[ $stderr =~ epoch\ [0-9]+,\ step\ [0-9]+.*--lr ]]
    train --hidden $deep --snapshot diverged
    train --hidden $deep --snapshot whole
    cmp whole diverged
}

# bats test_tags=test-all
@test "the mistakes in the questions of the README make the loss infinite or NaN" {
    set_build
    changed ./program 1 train.c '/^static void start/,/^}/{/cudaMemsetAsync/d}'
    fails 1 "$(text_of NOT_FINITE)" timeout 120 ./program --data "$tiny"
    changed ./program 1 train.c '/^static struct stats read_stats/,/^}/{/cudaStreamSynchronize/d}'
    fails 1 "$(text_of NOT_FINITE)" timeout 120 ./program --data "$tiny"
}
