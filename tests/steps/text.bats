#!/usr/bin/env bats
# Tests of a text as data: the lines and the CSV file that users see, the text of the course, snapshots, and several ranks.
load ../helpers
load every_step

prepare() {
    seq 3000 | head -c 12000 >"$BATS_FILE_TMPDIR/text"
}

# 21 sequences for the test, and two epochs of eight training steps.
adjust() {
    options=(--data "text:$BATS_FILE_TMPDIR/text" --model gpt --layers 1 --heads 2 --width 8 --context 56 --batch 24 --epochs 2
        --lr 0.01 --log-every 1)
}

@test "reports of a text count tokens and have the perplexity, also in the CSV file" {
    train 1 1 --csv csv
    grep -qx "data      text:$BATS_FILE_TMPDIR/text: 192 training and 21 test sequences of 56 tokens (bytes), loss in nats per token" out
    grep -qE '^epoch 1/2  step 1/8  loss [0-9.]+  [0-9]+ tokens/s  0:00:[0-9]+ left$' out
    [ "$(grep -cE '^epoch ./2  loss [0-9.]+  test loss [0-9.]+  perplexity [0-9.]+  accuracy [0-9.]+%  [0-9.]+ s  [0-9]+ tokens/s$' out)" = 2 ]
    [ "$(head -n 1 csv)" = step,loss,epoch,epoch_loss,test_loss,accuracy,seconds,lr,perplexity ]
    awk -F, 'NF != 9 { exit 1 }
        $3 == "" && $9 != "" { exit 1 }
        NR > 1 && $3 != "" { epochs++; ratio = $9 / exp($5); if (ratio < 0.999999 || ratio > 1.000001) exit 1 }
        END { exit epochs != 2 }' csv
}

@test "a snapshot continues with its text only" {
    sed 's/^1234$/1235/' "$BATS_FILE_TMPDIR/text" >other # one of 12000 bytes is enough
    train 1 1 --snapshot s --epochs 1
    fails 1 "was trained with \"checksum of the training sequences: " \
        "$(program_of 1)" "${options[@]}" --snapshot s --data text:other
    fails 1 "context 56 with sgd, not gpt" "$(program_of 1)" "${options[@]}" --snapshot s --context 55
    train 1 1 --snapshot s
    grep -q '^resumed   s: 1 epoch and 0 steps are done$' out
}

@test "--data text needs no file, and the model learns its patterns in seconds" {
    train 1 1 --data text --context 64 --heads 2 --width 32 --epochs 9 --max-steps 150 --optimizer adamw --lr 0.01
    grep -qx 'data      text: 4218 training and 468 test sequences of 64 tokens (bytes), loss in nats per token' out
    awk '/step 150/ { exit !($6 < 2) }' out
}
