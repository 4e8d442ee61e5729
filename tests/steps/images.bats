#!/usr/bin/env bats
# Tests of images: --model cnn, --model resnet, --augment and --summary in all steps. Any number of ranks has the loss curve
# of step 1, a residual block is one unit, and the CPU device's checker finds nothing.
# shellcheck disable=SC2086 # options are lists of words
load ../helpers
load every_step

# The smallest sizes at which each kind of layer has something to do: rows that no number of ranks divides, both kinds of
# residual blocks, several groups of normalisation.
cnn="--model cnn"
resnet="--model resnet --depth 8 --width 8"

# write_images FILE COUNT: writes images of 8 x 8 pixels with noise. The pixels are divided into ten stripes, and the stripe of
# the image's label is brighter.
write_images() {
    { idx_header "$2" 8 8 && LC_ALL=C awk -v count="$2" 'BEGIN {
        for (i = 1; i <= count; i++)
            for (p = 0; p < 64; p++) {
                noise = (noise * 1103 + 12345 + i) % 65536
                printf "%c", 32 + int(noise / 1024) + (int(p * 10 / 64) == i % 10) * 30
            }
    }'; } >"$1"
}

prepare() {
    local folder=$BATS_FILE_TMPDIR/images
    tiny_data "$folder" 144 31 8 8
    write_images "$folder/train-images-idx3-ubyte" 144
    write_images "$folder/t10k-images-idx3-ubyte" 31
}

adjust() {
    options=(--data "$BATS_FILE_TMPDIR/images" --batch 24 --epochs 2 --lr 0.01 --log-every 1)
}

# Shifted images have black areas, where a residual network has equal outputs. A ReLU may switch for all of them because of
# rounding, so the resnet has a small rate there; other images would have other losses at once.
@test "with a cnn, a resnet and a gpt, two to four ranks have the loss curve of step 1" {
    for model in "$cnn --augment crop,flip" "$gpt --max-steps 12" "$resnet" \
        "$resnet --data shapes --augment crop,flip --lr 1e-4 --max-steps 12"; do
        train 1 1 $model --csv one
        for run in "2 3" "3 2" "4 4" "5 3" "7 3 --accumulate 2 --strategy none" \
            "7 4 --strategy grad --recompute 1 --unit-bytes 40000"; do
            train $run $model --csv csv
            same_curve one csv || { echo "$run $model" && return 1; }
        done
    done
    grep -q '^model     resnet8 width 8, 3x32x32, ' out
}

# bats test_tags=test-all
@test "a rank's memory and traffic match the formulas" {
    for model in "$cnn" "$resnet" "$gpt --max-steps 6"; do
        for run in 2 "4 --precision bf16 --recompute 1 --unit-bytes 40000 --accumulate 2"; do
            train 7 $run $model
            costs_agree
        done
    done
}

# units STEP UNITS OPTION...: the snapshot of two ranks must have this number of units.
units() {
    rm -f s s.*
    train "$1" 2 --max-steps 1 --snapshot s "${@:3}" || return
    grep '^unit' s >units
    [ "$(wc -l <units)" = "$2" ] || { cat units && return 1; }
}

@test "a residual block is one unit, and a snapshot of another depth is refused" {
    units 5 $((2 + 3 + 1 + 1)) $resnet # the first convolution and its normalisation, the blocks, pooling, the last layer
    # A block with a projection: two convolutions with 3 x 3 pixels, one of 1 x 1, and three normalisations.
    grep -qx "unit $((9 * 8 * 16 + 9 * 16 * 16 + 8 * 16 + 3 * 2 * 16))" units
    fails 1 "s holds resnet8 width 8, 1x8x8 with sgd, not resnet14 width 8, 1x8x8 with sgd" "$TRAIN" "${options[@]}" \
        --model resnet --depth 14 --width 8 --snapshot s
    units 7 $((2 + 8 + 1)) --model resnet --depth 18 --width 8
    units 7 3 $resnet --unit-bytes 40000
}

@test "the evaluation changes no images, drops no outputs and smooths no labels" {
    # With so small a rate, no parameter changes in 4 bytes.
    train 1 1 --model mlp --lr 1e-12 --momentum 0 --csv without
    for more in "--augment crop,flip" "--dropout 0.9" "--label-smoothing 0.5"; do
        train 1 1 --model mlp --lr 1e-12 --momentum 0 $more --csv with
        [ "$(cut -d, -f5,6 without)" = "$(cut -d, -f5,6 with)" ]
        run ! cmp -s <(cut -d, -f2 without) <(cut -d, -f2 with)
    done
}

@test "--summary prints the same table in steps 1 and 7, and its sums leave out the layers in a block" {
    train 1 1 $resnet --max-steps 1 --summary
    sed -n '/^layer /,/^total /p' out >table
    grep -q '^  shortcut convolution ' table
    tail -n +2 table | tr -d , | awk '{ n = NF }
        /^total/ { exit p != $(n - 2) || f != $(n - 1) || b != $n }
        !/^ / { p += $(n - 2); f += $(n - 1); b += $n }
        END { if (!p || !f) exit 1 }'
    train 7 2 $resnet --max-steps 1 --summary
    sed -n '/^layer /,/^total /p' out | diff table -
}

@test "a batch that is too large for the device's memory: the error says what each kind of memory takes" {
    export CPU_DEVICE_MEMORY=80M
    fails 1 "asked for 44.3 MB of activations, 12.7 MB of 83.9 MB are left after data 55.2 MB, parameters 4.8 MB, gradients \
4.8 MB, optimizer 4.8 MB, activations 1.6 MB; lower --batch, or choose a smaller model" "$TRAIN" --data synthetic \
        --model cnn --batch 512 --load device
}
