#!/usr/bin/env bats
# Tests of step 9: parts of a model, in any layout of parts, stages and replicas, compute the losses and the gradients of
# step 1, and their costs are those of the formulas. every.bats asks what all steps must do.
# shellcheck disable=SC2046,SC2086,SC2206 # options are lists of words
load ../helpers
load every_step
more_options=(--lr 0.01 --hidden "32,22,16")

# In the text model, four parts have a head each. An epoch has 20 steps. The last micro-batch of an evaluation is smaller
# than the others.
adjust() {
    export CPU_DEVICES=8
    gpt="$gpt --heads 4 --batch 30 --epochs 1"
}

# same_digits CSV CSV: both files must have the same 20 training steps and the same epochs, and losses with the same eight
# digits. The parts only add the same floats in another order. A float has a relative error of up to 6e-8, so one loss can
# differ by twice as much from another. The errors of the samples mostly cancel: the means here differ by about 1e-8. SGD
# adds gradients to the parameters, so a wrong factor in a gradient changes the next loss. AdamW would divide it out.
same_digits() {
    paste -d, <(cut -d, -f1-6,8 "$1") <(cut -d, -f1-6,8 "$2") | awk -F, '
        function differ(a, b) { return (a == "") != (b == "") || (a - b) ^ 2 > (1.5e-7 * a) ^ 2 }
        NR > 1 {
            steps += $2 != ""
            epochs += $5 != ""
            if ($1 != $8 || $3 != $10 || differ($2, $9) || differ($4, $11) || differ($5, $12) || $6 != $13 || $7 != $14) {
                print "differs: " $0
                wrong = 1
            }
        }
        END { exit wrong || steps != 20 || !epochs }'
}

# PARTS,STAGES,REPLICAS,SEQUENCE OPTION...: the layouts of a test, one a line.
in_layouts() { # COMMAND CSV OPTION...
    local layout more parts stages replicas sequence
    while read -r layout more; do
        IFS=, read -r parts stages replicas sequence <<<"$layout"
        rm -f got*
        train 9 $((parts * stages * replicas)) --tensor $parts --stages $stages --sequence $sequence --csv got \
            --snapshot got.bin "${@:3}" $more
        grep -qE "^pipeline .* $stages stages?, $replicas replicas?," out
        grep -q "^tensor    $parts part" out
        "$1" "$2" got || { echo "$layout $more" && return 1; }
    done
}

@test "all layouts of images and of a text have the losses of step 1, up to eight digits" {
    options+=(--dropout 0.2)
    train 1 1 --csv right
    in_layouts same_digits right <<'END'
1,1,2,0
1,2,1,0
2,1,1,0
2,2,2,0 --overlap 0
2,1,2,0 --micro-batches 3
4,1,1,0 --micro-batches 1
4,2,1,0 --pipeline gpipe
END
    options+=($gpt)
    train 1 1 --csv right
    in_layouts same_digits right <<'END'
1,2,2,0
2,1,1,1
2,2,2,1 --pipeline gpipe
4,1,1,1
4,1,2,0 --overlap 0
4,2,1,1
END
}

# values FILE: prints the values of a snapshot's file of step 1, one a line: its parameters, and then its optimizer state.
values() {
    tail -c +1257 "$1" | head -c -4 | od -An -v -w4 -tf4
}

# same_values FILE FILE: the parameters and the gradients of the first training step, which are the momentum of SGD then, must
# be the same except for rounding. Many gradients are about 1e-4.
same_values() {
    train 1 1 --max-steps 1 --snapshot got.bin # writes the parts into one file
    paste <(values "$1") <(values got.bin) | awk '
        function abs(x) { return x < 0 ? -x : x }
        $1 != 0 { some++ }
        !(abs($1 - $2) <= 1e-4 * abs($1) + 1e-8) { wrong++; if (wrong < 5) print "value " NR ": " $0 }
        END { exit wrong || some < NR / 3 }'
}

@test "after a training step of SGD, all parameters and gradients are those of step 1 except for rounding" {
    for model in "" "$gpt --dropout 0.2"; do
        layouts="2,2,1,0 4,1,1,0"
        [ -z "$model" ] || layouts="2,2,1,1 4,1,1,1"
        options+=($model --max-steps 1)
        rm -f right*
        train 1 1 --snapshot right.bin
        in_layouts same_values right.bin < <(printf '%s\n' 2,1,2,0 $layouts)
    done
}

@test "a run ends when a part changes a parameter that all parts have" {
    options+=($gpt --tensor 2)
    # The last parameters, the bias of the last layer, are copies.
    changed ./program 9 train.c 's/^        check_replicas\(t, checksum_of/        if (t->parts.number == 1)\
            fill(t->parameters + t->model.parameters - 1, 1, 7, t->stream);\
&/'
    for sequence in 0 1; do
        program=./program refute train 9 2 --sequence $sequence
        grep -qE '^error \(.*, rank [01]\): epoch 1: '"$(text_of REPLICAS_DIFFER)\$" err
        train 9 2 --sequence $sequence
    done
}

# sums PARTS VALUES...: prints the bytes that a part sends in a training step: an all-reduce of this number of floats sends
# twice 1 - 1 / PARTS of them.
sums() {
    awk -v parts="$1" -v values="$(($2))" 'BEGIN { printf "%.0f\n", 2 * (parts - 1) / parts * 4 * values }'
}

@test "memory and sent bytes are the computed ones, and each pair of matrices sums its outputs and the gradients of its inputs" {
    cost_rows=6 layers=2 width=32 tokens=16
    for parts in 1 2 4; do
        # Nothing reads the gradient of the images.
        train 9 $parts --tensor $parts --max-steps 2 --optimizer adam
        costs_agree parts $(sums $parts "120 * (22 + 10 + 22)")
    done
    more="$gpt --layers $layers --max-steps 2"
    train 9 4 $more
    costs_agree parts $(sums 4 "30 * $tokens * $width * 4 * $layers")
    # Two exchanges take the place of each sum, and backward gathers the inputs of a pair again.
    divided=$((layers * (12 * width * width + 7 * width)))
    copies=$(($(sed -n 's/^model .* \([0-9]*\) parameters$/\1/p' out) - divided))
    train 9 4 $more --sequence 1
    costs_agree parts $(sums 4 "30 * $tokens * $width * 5 * $layers + $copies")
    train 9 8 $more --sequence 1 --tensor 2 --stages 2
    costs_agree
}

@test "parts save, and any other division of the model continues with the same bits and the losses of step 1" {
    for model in "" "$gpt --dropout 0.2"; do
        steps="--max-steps 7 $model"
        into=("1 1" "5 3" "9 4 --tensor 4" "8 4" "8 2" "8 4 --stages 2" "8 1" "7 2 --save full" "9 2 --tensor 1 --stages 2")
        on=("1 1" "7 2" "8 3" "9 4 --tensor 4")
        [ -z "$model" ] || into=("7 2" "9 4 --tensor 4 --sequence 1") on=("9 2 --sequence 1")
        rm -rf right whole four copy
        train 1 1 --csv right $model
        train 1 1 --snapshot whole $steps --csv start
        mkdir four
        train 9 4 --tensor 2 --stages 2 --snapshot four/s $steps --csv four.csv
        [ "$(cd four && echo *)" = "$(cd four && echo s s.e*u*.{0,1,2,3}of4)" ]
        cp -r four copy
        # A run with nothing left to do writes what it has loaded.
        for to in "${into[@]}" "9 4 --tensor 2 --stages 2"; do
            train $to --snapshot copy/s $steps
            grep -qx "resumed   copy/s: .*; $(text_of NOTHING_LEFT)" out
        done
        diff -r four copy
        for to in "${on[@]}"; do
            rm -rf copy now.csv
            cp -r four copy
            cp four.csv now.csv
            train $to --snapshot copy/s --csv now.csv $model
            same_digits right now.csv || { echo "continued by step $to $model" && return 1; }
        done
        train 9 4 --tensor 2 --snapshot whole --csv start $model # from step 1 to step 9
        same_digits right start
    done
}

# With a single stage, a rank waits in one communicator at a time, so its error names the rank that is stuck there. On a busy
# machine, the CPU device can explain a wait only after a second.
@test "the error line names the sum in which a part is stuck" {
    KILL_AT="1 ncclAllReduce 41 19" start_ranks 2 "$(watched 9)" --tensor 2 --step-timeout 4
    ranks_end 15 1 0
    rank_says 0 ".*$(text_of NOT_ENDED) 4 s .*step [0-9]+, collective [0-9]+, ncclAllReduce at .*09_tensor/tensor.c:[0-9]+"
    grep -q 'rank 1' err.0
}

@test "a part killed while it saves, sums or sends is restarted, and the result is the same" {
    layout="--tensor 2 --stages 2"
    options+=(--epochs 2)
    mkdir right text
    train 9 4 --snapshot right/s $layout
    printf '%s\n' "1 ncclAllReduce 31" "3 rename 1" "0 rename 2" | all_come_through 9 4 $layout
    layout="$gpt --tensor 4 --sequence 1"
    train 9 4 --snapshot text/s $layout
    right=text all_come_through 9 4 $layout <<<"2 ncclReduceScatter 60"
}
