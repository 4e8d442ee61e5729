#!/usr/bin/env bats
# Tests of --model cnn and --model resnet in all steps: any number of ranks has the loss curve of step 1, with every strategy
# and option. The CPU device's checker finds nothing, and random delays change no bit.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load images

@test "with a cnn and a resnet, two and three ranks have the loss curve of step 1" {
    for model in "${models[@]}"; do
        train 1 1 "$model" --csv one
        for run in "2 3" "4 2" "5 3" "7 3"; do
            # shellcheck disable=SC2086 # words
            train $run "$model" --csv csv
            same_curve one csv || { echo "$run $model" && return 1; }
        done
    done
    # The test would notice another model or seed.
    run ! same_curve <(train 1 1 "resnet --depth 14 --width 8" --csv other && cat other) one
    run ! same_curve <(train 1 1 "$model" --seed 2 --csv other && cat other) one
}

# bats test_tags=test-all
@test "with a cnn and a resnet, any number of ranks has the loss curve of step 1" {
    for model in "${models[@]}" "resnet --depth 14 --width 16"; do
        train 1 1 "$model" --csv one
        for step in 2 3 4 5 7; do
            for ranks in 1 2 3 4; do
                train $step $ranks "$model" --csv csv
                same_curve one csv || { echo "step $step, $ranks ranks, $model" && return 1; }
            done
        done
    done
}

# bats test_tags=test-all
@test "with the optimizers and schedules of the tutorials, any number of ranks has the loss curve of step 1" {
    for how in "${tutorials[@]}"; do
        model=${how%%:*} more=${how#*: }
        trains 1 1 "$model" "$more --csv one"
        for run in "2 2" "3 4" "4 3" "5 2" "5 3" "5 4" "7 3" "7 4 --strategy grad --accumulate 2 --recompute 1 --unit-bytes 40000"; do
            read -r step ranks options_of_run <<<"$run"
            trains "$step" "$ranks" "$model" "$more --csv csv $options_of_run"
            same_curve one csv || { echo "in: $run $how" && return 1; }
        done
    done
}

# bats test_tags=test-all
@test "with color images of 32 x 32 pixels, any number of ranks has the loss curve of step 1" {
    options+=(--data shapes --max-steps 4 --augment "crop,flip")
    train 1 1 "${models[1]}" --csv one
    grep -q '^model     resnet8 width 8, 3x32x32, ' out
    for run in "2 2" "5 3" "7 4"; do
        # shellcheck disable=SC2086 # words
        train $run "${models[1]}" --csv csv
        near 1e-5 4 one csv
    done
}

# The columns are ranks, strategy, prefetch, overlap, recompute, accumulate, unit-bytes and clip. Every pair of values of two
# columns is in some row. "some" bytes are as many as the model below needs for units of one and of several layers.
runs="\
1 full 0 1 0 2 some    0
1 grad 0 0 1 3 0       0.3
1 grad 1 1 1 1 1000000 0
1 none 1 1 1 2 0       0.3
2 full 1 1 0 1 1000000 0.3
2 grad 1 0 0 3 some    0
2 none 0 0 1 2 0       0
3 full 0 0 0 1 0       0
3 grad 1 1 1 2 some    0.3
3 none 0 0 1 2 1000000 0.3
3 none 1 0 0 3 1000000 0.3
4 full 0 1 1 3 1000000 0
4 full 1 0 1 2 0       0
4 grad 0 1 1 3 some    0.3
4 none 1 0 0 1 some    0"

# learns MODEL UNITS SOME: each of these runs must have the loss curve of step 1, or with --clip that of one rank of step 7.
# With --unit-bytes SOME, the model has this number of units.
learns() {
    local run ranks strategy prefetch overlap recompute accumulate unit_bytes clip
    train 1 1 "$1" --batch 72 --epochs 5 --csv right.0 || return
    train 7 1 "$1" --batch 72 --epochs 5 --csv right.0.3 --strategy none --clip 0.3 || return
    refute same_curve right.0 right.0.3 >/dev/null
    while read -r run; do
        read -r ranks strategy prefetch overlap recompute accumulate unit_bytes clip <<<"$run"
        train 7 "$ranks" "$1" --batch 72 --epochs 5 --csv csv --clip "$clip" --strategy "$strategy" --prefetch "$prefetch" \
            --overlap "$overlap" --recompute "$recompute" --accumulate "$accumulate" \
            --unit-bytes "${unit_bytes/some/$3}" || return
        [ "$unit_bytes" != some ] || grep -q " units: $2, " out || return
        same_curve "right.$clip" csv || {
            echo "in: $run"
            return 1
        }
    done <<<"$runs"
}

# bats test_tags=test-all
@test "with every strategy and pair of options, step 7 has the loss curve of step 1" {
    learns "cnn" 3 80000
    learns "resnet --depth 8 --width 8" 3 40000
}

# bats test_tags=test-all
@test "--strategy hybrid on two nodes has the loss curve of step 1" {
    for model in "${models[@]}"; do
        train 1 1 "$model" --csv one
        port=$(free_port) jobs=()
        for node in 0 1; do
            # shellcheck disable=SC2086 # words
            NCCL_HOSTID=node$node timeout "$(patience 60)" "$launch" --nnodes 2 --node-rank $node --nproc-per-node 2 \
                --master-port "$port" "$build/07_large_models/train" --model $model "${options[@]}" --strategy hybrid \
                --accumulate 2 --csv csv >out.$node 2>err.$node 3>&- &
            jobs+=($!)
        done
        for node in 0 1; do
            wait "${jobs[node]}" || { cat err.$node && return 1; }
        done
        grep -q 'hybrid: .* shards per unit: 2, replicas: 2' out.0
        same_curve one csv
    done
}

# near BAND STEPS CSV CSV: the losses of the first steps may differ by this share.
near() {
    awk -F, -v band="$1" -v wanted="$2" '
        $2 == "" || $1 == "step" || $1 > wanted { next }
        NR == FNR { right[$1] = $2; next }
        !($1 in right) || ($2 - right[$1]) ^ 2 > (band * $2) ^ 2 { print "differs: " $0 ", not " right[$1]; wrong = 1 }
        { steps++ }
        END { exit wrong || steps != wanted }' "$3" "$4"
}

# bats test_tags=test-all
@test "TF32 and bfloat16 have the loss curve of float except for rounding, on any number of ranks" {
    # TF32 has 11 significant bits and bfloat16 has 8, so rounding errs by up to 2^-12 or 2^-9 of a value. In the loss of an
    # untrained model, an average of many values, less than that is left. Later, the errors grow: where a value near zero
    # changes its sign, a ReLU switches. This also holds for the few values that are rounded in another direction because
    # another number of ranks adds in another order.
    while read -r step option value first; do
        for model in "${models[@]}"; do
            train 1 1 "$model" --csv float
            train "$step" 1 "$model" "$option" "$value" --csv one
            near "$first" 1 float one
            near 0.01 12 float one
            refute near 1e-5 12 float one >/dev/null
            for more in "" "--strategy none --accumulate 2" "--recompute 1 --unit-bytes 40000"; do
                for ranks in 2 3 4; do
                    trains 7 $ranks "$model" "$option $value --csv csv $more"
                    near "$first" 1 one csv
                    near 0.005 12 one csv || { echo "$ranks ranks $option $more: $model" && return 1; }
                done
            done
        done
    done <<'END'
1 --tf32 1 0.0001
7 --precision bf16 0.001
END
}

# bats test_tags=test-all
@test "bfloat16 learns" {
    for model in "${models[@]}"; do
        train 7 2 "$model" --precision bf16 --epochs 12 --lr 0.1 --csv csv
        tail -n 1 csv
        tail -n 1 csv | awk -F, '{ exit !($1 == 72 && $6 >= 90) }'
    done
}

# The scratch memory holds the windows of a part of the batch, and a part has at most CONV_WORKSPACE bytes: 25 images for
# the second layer of this cnn.
@test "a convolution computes a large batch in parts, which change only rounding" {
    train 1 1 cnn --max-steps 1
    # 24 images with 4 x 4 windows of 3 x 3 pixels, 32 channels, in floats
    grep -q "^memory .*, scratch 442.4 KB$" out
    ((24 * 4 * 4 * 3 * 3 * 32 * 4 == 442368))
    train 1 1 cnn --data synthetic --batch 600 --max-steps 1
    grep -qE '^memory .*, scratch 16\.[67] MB$' out
    train 1 1 cnn --data synthetic --batch 60 --max-steps 3 --csv one
    train 5 3 cnn --data synthetic --batch 60 --max-steps 3 --csv csv
    near 1e-6 3 one csv
}

# bats test_tags=test-all
@test "a rank's memory and traffic match the formulas" {
    # Bytes of activations for each sample: floats of the pixels, of the outputs with each layer's workspace, and of two
    # gradients as wide as the widest layer; a label. In all: partial sums of the loss.
    sums=$((24 * 1025 + 8))
    train 7 1 cnn
    outputs=$((6 * 6 * 32 + 4 * 4 * 64 + 2 * (2 * 2 * 64) + 2 * 128 + 10))
    costs_agree activations $((24 * (4 * (64 + outputs + 2 * 6 * 6 * 32) + 1) + sums))
    costs_agree parameters $((4 * 53002))
    for model in "${models[@]}"; do
        for run in 1 2 3 4 "3 --recompute 1" "2 --recompute 1 --unit-bytes 40000" "3 --strategy grad --recompute 1 --unit-bytes 1000000" \
            "4 --precision bf16" "2 --precision bf16 --recompute 1 --unit-bytes 40000 --accumulate 2" "2 --strategy none --clip 1"; do
            trains 7 "${run%% *}" "$model" "${run#"${run%% *}"}"
            costs_agree activations
            [[ $run != 3* ]] || grep -qE '^costs .* with [1-9][0-9]* of padding, N = 3 shards' out
        done
    done
}

# clean STEP RANKS MODEL OPTIONS: the checker must find nothing in an epoch with a snapshot, nor in one from this snapshot.
clean() {
    local epochs
    rm -f snapshot*
    for epochs in 1 2; do
        CPU_DEVICE_CHECK=1 trains "$1" "$2" "$3" "${4-} --snapshot snapshot --epochs $epochs" || return
        refute grep CPU_DEVICE_CHECK err || return
    done
    grep -q '^resumed .* 1 epoch ' out
}

@test "the checker of ordering finds nothing in step 5 with a cnn and a resnet" {
    for model in "${models[@]}"; do
        clean 5 3 "$model"
    done
}

# bats test_tags=test-all
@test "the checker of ordering finds nothing in any step with a cnn and a resnet" {
    for model in "${models[@]}"; do
        clean 1 1 "$model"
        for ranks in 2 3; do
            for step in 2 3 4 5 7; do
                clean $step $ranks "$model"
            done
            clean 2 $ranks "$model" "--overlap 0"
            for more in "--overlap 0" "--prefetch 0"; do
                clean 5 $ranks "$model" "$more"
            done
            for more in "--overlap 0 --unit-bytes 40000" "--prefetch 0 --strategy grad --recompute 1 --unit-bytes 40000" \
                "--strategy none --accumulate 2 --clip 0.1" "--precision bf16 --accumulate 2 --recompute 1 --unit-bytes 1000000"; do
                clean 7 $ranks "$model" "$more"
            done
        done
    done
}

# bats test_tags=test-all
@test "random delays change no bit of a cnn and a resnet" {
    seed=0
    for model in "${models[@]}"; do
        for run in "2 2" "5 3" "7 3 --recompute 1 --unit-bytes 40000" "7 2 --strategy grad --precision bf16 --accumulate 2"; do
            read -r step ranks more <<<"$run"
            rm -rf right && mkdir right
            trains "$step" "$ranks" "$model" "--snapshot right/s $more"
            for _ in 1 2; do
                rm -rf got && mkdir got
                CPU_DEVICE_CHAOS=$((++seed)) trains "$step" "$ranks" "$model" "--snapshot got/s $more"
                diff -r right got
            done
        done
    done
}
