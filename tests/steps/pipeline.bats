#!/usr/bin/env bats
# Tests of step 8: a pipeline computes the same bits as one rank of step 7 that adds up as many parts of a batch, and its
# costs are those of the formulas. every.bats asks what all steps must do.
# shellcheck disable=SC2046,SC2086,SC2206 # options are lists of words
load ../helpers
load every_step
more_options=(--lr 0.01 --epochs 2)

prepare() {
    tiny_data "$BATS_FILE_TMPDIR/images" 480 40 12 12
}

# cnn and resnet on larger images, with few samples in an epoch.
cnn="--data $BATS_FILE_TMPDIR/images --model cnn --max-steps 6"
resnet="--data $BATS_FILE_TMPDIR/images --model resnet --depth 8 --max-steps 2"

@test "a pipeline has the bits of one rank of step 7 that computes a batch in as many parts" {
    last=none
    while IFS='|' read -r ranks stages parts model more; do
        if [ "$model" != "$last" ]; then
            rm -f right*
            train 7 1 --accumulate $parts --csv right.csv --snapshot right --save full $model
            last=$model
        fi
        rm -f got*
        train 8 $ranks --stages $stages --micro-batches $parts --csv got.csv --snapshot got $model $more
        train 7 1 --accumulate $parts --snapshot got --save full $model # writes the stages' parts into one file
        cmp got right || { echo "$ranks ranks, $model $more" && return 1; }
        diff <(cut -d, -f1-6,8 right.csv) <(cut -d, -f1-6,8 got.csv)
    done <<END
1|1|12||
3|3|12||--pipeline 1f1b
4|4|12||--pipeline 1f1b
3|3|6|$gpt --layers 4 --dropout 0.2 --optimizer adamw --lr 1e-3|--pipeline gpipe
4|4|6|$gpt --layers 4 --dropout 0.2 --optimizer adamw --lr 1e-3|--pipeline 1f1b
2|2|4|$cnn --augment flip|--pipeline 1f1b
4|4|4|$cnn --augment flip|--pipeline gpipe
2|2|4|$resnet|--pipeline 1f1b
END
}

# With random delays, the host also waits for its first launch of a kernel and its first transfer with another rank, as it may
# on a GPU.
@test "no schedule of steps 8 and 9 hangs if first launches and first transfers wait" {
    for schedule in gpipe 1f1b; do
        for parts in 1 2 3 5; do # fewer than stages, as many or more
            delays=$parts train 8 4 --pipeline $schedule --micro-batches $parts --max-steps 2
        done
        delays=1 train 8 2 --pipeline $schedule --max-steps 2
        delays=2 train 8 4 --stages 2 --micro-batches 10 --pipeline $schedule --max-steps 2
        delays=3 train 9 4 --tensor 2 --stages 2 --pipeline $schedule --max-steps 2
    done
}

# bats test_tags=gpu
@test "several pipelines, other numbers of stages and micro-batches, and parts have the loss curve of step 1" {
    for model in "" "$gpt --dropout 0.2 --optimizer adamw --lr 1e-3"; do
        train 1 1 --csv right $model
        for more in "8 4 --stages 2" "8 4 --stages 1 --micro-batches 3" "8 2 --stages 2 --micro-batches 1 --pipeline gpipe" \
            "8 4 --stages 2 --overlap 0" "9 2 --tensor 2" "9 4 --tensor 2 --stages 2 --sequence $((${#model} > 0))"; do
            train $more --csv got $model
            same_curve right got || { echo "$more $model" && return 1; }
        done
    done
}

# costs RANKS OPTION...: the measured bytes of the first stage must be the computed ones.
costs() {
    train 8 "$@" --max-steps 2 && cost_rows=5 costs_agree
}

@test "memory and sent bytes are the computed ones, and 1f1b keeps as many micro-batches as there are stages" {
    options+=(--batch 128 --optimizer adam)
    for case in gpipe:8 1f1b:4; do
        costs 4 --micro-batches 8 --pipeline "${case%:*}"
        grep -q ", ${case#*:} of 8 micro-batches in flight" out
        # A micro-batch of 16 samples has 32 outputs at the first cut, of four bytes each.
        [ "$(awk '$1 == "sent" { print $4 }' out)" = $((8 * 16 * 32 * 4)) ]
    done
    costs 2
    costs 4 --stages 2 --micro-batches 4
    costs 3 $gpt --layers 2 --batch 60
}

# idle RANKS SCHEDULE SHARE: stages are idle for this share of the modelled time of a step, up to 2 %, if they compute for the
# rest, which is the time of one rank divided by the ranks. The banner prints the share.
idle() {
    train 8 "$1" "${large[@]}" --pipeline "$2"
    awk -v ranks="$1" -v one="$one" -v wanted="$3" '/modelled .* s / {
        for (i = 1; i < NF; i++)
            if ($i == "modelled") time = $(i + 1)
    }
    END { idle = 1 - one / (time * ranks); print idle; exit !(idle > wanted - 0.02 && idle < wanted + 0.02) }' out
    grep -q "^pipeline  .* idle $(awk -v share="$3" 'BEGIN { printf "%.1f", 100 * share }') %$" out
}

@test "the modelled idle share of equal stages is the one of the formula" {
    # Transfers and calls cost nothing here, because the formula knows only work. In such a large batch, the fixed times of
    # kernels hardly count.
    sed -E 's/^(link|pair|network) .*/\1 1e5/; s/^([a-z]+_latency|latency|wake|[a-z]+_call|gap|product) .*/\1 1e-3/' \
        "$root/cpu_device/h100.model" >free.model
    export CPU_DEVICE_MODEL=./free.model CPU_DEVICE_COMPUTE=0
    large=(--model gpt --layers 8 --width 4096 --heads 32 --context 16 --data text --batch 2048 --micro-batches 16)
    train 8 1 "${large[@]}"
    one=$(sed -nE 's/^epoch 2.*modelled ([0-9.]+) s .*/\1/p' out)
    # (stages - 1) / (micro-batches + stages - 1)
    idle 4 gpipe 0.15789
    idle 4 1f1b 0.15789
    idle 2 1f1b 0.05882
}

@test "the error line of a stage that waits names the transfers and the stage that is stuck" {
    KILL_AT="1 ncclSend 30 19" start_ranks 3 "$(watched 8)" --micro-batches 4 --step-timeout 4
    ranks_end 15 1 0 2
    for rank in 0 2; do
        rank_says $rank ".*$(text_of NOT_ENDED) 4 s .*transfers between stages at "
    done
    grep -q 'rank 1' err.0
}

# Each rank renames its file, and rank 0 the manifest. The run saves before it starts and after each epoch.
@test "a stage killed while it saves, sends or receives is restarted, and the result is the same" {
    mkdir right
    train 8 3 --snapshot right/s
    printf '%s\n' "2 rename 1" "0 rename 2" "0 rename 4" "0 unlinkat 2" "1 ncclSend 50" "2 ncclRecv 99" | all_come_through 8 3
}
