#!/usr/bin/env bats
# Tests of step 1 as a user sees it: its results, its output, its files and its exit codes.
load ../helpers
programs=(01_single_gpu/train)

# Three epochs of ten steps on the tiny images; the time limit only ends a run that hangs.
train() {
    timeout 120 "$TRAIN" --data "$tiny" --hidden 8,8 --batch 64 --epochs 3 "$@"
}

epoch_line='^epoch [0-9]+/[0-9]+  loss [0-9]+\.[0-9]{4}  test loss [0-9]+\.[0-9]{4}  accuracy [0-9]{1,3}\.[0-9]{2}%  [0-9]+\.[0-9]{2} s  [0-9]+ images/s$'

# bats test_tags=gpu
@test "one epoch with the default options learns real images" {
    if [ -d "$root/data/mnist" ]; then
        data=mnist least=95
    elif [ -d "$root/data/fashion-mnist" ]; then
        data=fashion-mnist least=78
    else
        skip "no images in data/: make data fetches them"
    fi
    timeout "$(patience 60)" "$TRAIN" --data "$root/data/$data" --epochs 1 >log
    tail -n 1 log
    [[ $(tail -n 1 log) =~ $epoch_line ]]
    awk -v least="$least" 'END { exit !($9 + 0 >= least) }' log
}

@test "the line of an epoch has the agreed format and the numbers of the CSV file" {
    train --epochs 1 --csv csv >log
    line=$(tail -n 1 log)
    [[ $line =~ $epoch_line ]]
    said=$(sed -E 's|^epoch 1/1  loss (.*)  test loss (.*)  accuracy (.*)%  .*|\1 \2 \3|' <<<"$line")
    [ "$said" = "$(tail -n 1 csv | awk -F, '{ printf "%.4f %.4f %.2f", $4, $5, $6 }')" ]
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

@test "--tf32 changes the losses slightly, and the banner says so" {
    train --log-every 1 --csv exact --max-steps 3 >/dev/null
    train --log-every 1 --csv rounded --max-steps 3 --tf32 1 >out
    grep -qE '^training  .*, tf32, seed ' out
    run ! cmp -s exact rounded
    paste -d, exact rounded | awk -F, '$2 + 0 > 0 { n++; d = $2 - $10; worst = d > worst ? d : -d > worst ? -d : worst }
        END { print n, worst; exit !(n == 3 && worst > 0 && worst < 1e-3) }'
}

@test "a run that continues with other settings says so, and goes on" {
    train --max-steps 5 --snapshot s --dropout 0.5 >log
    train --max-steps 6 --snapshot s --dropout 0.5 --log-every 1 --epochs 7 --csv csv --save-every 2 >log
    refute grep '^note' log
    train --max-steps 7 --snapshot s --lr 0.1 >log
    grep -qx 'note      differs from the snapshot: sgd, lr 0.1, momentum 0.9, --batch 64; before: sgd, lr 0.05, momentum 0.9, --dropout 0.5, --batch 64' log
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
    changed ./program 1 train.c '/^static void setup/,/^}/{/cudaMemsetAsync/d}'
    fails 1 "$(text_of NOT_FINITE)" timeout 120 ./program --data "$tiny"
    changed ./program 1 train.c '/^static struct stats read_stats/,/^}/{/cudaStreamSynchronize/d}'
    fails 1 "$(text_of NOT_FINITE)" timeout 120 ./program --data "$tiny"
}
