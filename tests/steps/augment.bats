#!/usr/bin/env bats
# Tests of --augment in all steps, of --summary, and of models that do not fit the images or the device's memory.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load images

augment=(--augment "crop,flip")

@test "with --augment, two to four ranks have the loss curve of step 1" {
    train 1 1 cnn "${augment[@]}" --csv one # a cnn also has dropout
    grep -q '^model     cnn 1x8x8, dropout 0.25 and 0.5, augment crop,flip, [0-9]* parameters$' out
    for words in none crop flip; do
        train 1 1 cnn --augment $words --csv other
        run ! same_curve one other
    done
    for run in "2 3" "3 2" "4 4" "5 3" "7 4"; do
        # shellcheck disable=SC2086 # words
        train $run cnn "${augment[@]}" --csv csv
        same_curve one csv || { echo "$run" && return 1; }
    done
    for more in "--accumulate 2" "--strategy none --recompute 1" "--accumulate 3 --recompute 1 --unit-bytes 4000"; do
        trains 7 2 cnn "${augment[*]} --csv csv $more"
        same_curve one csv || { echo "$more" && return 1; }
    done
}

# Shifted images have black areas, where a residual network has equal outputs. A ReLU may switch for all of them because of
# rounding. A small rate keeps its effect on the losses below the limit; other images would have other losses at once.
# bats test_tags=test-all
@test "with --augment, any number of ranks has the loss curve of step 1 for each model" {
    for model in "mlp --hidden 20,12" "${models[@]}"; do
        train 1 1 "$model" "${augment[@]}" --lr 1e-4 --csv one
        for step in 2 3 4 5 7; do
            for ranks in 1 2 3 4; do
                train $step $ranks "$model" "${augment[@]}" --lr 1e-4 --csv csv
                same_curve one csv || { echo "step $step, $ranks ranks, $model" && return 1; }
            done
        done
    done
}

@test "with --augment, a run that is stopped within an epoch and continued ends with the same bits" {
    for step in 1 2 3 4 5 7; do
        rm -rf right s && mkdir right s
        train $step 2 cnn "${augment[@]}" --snapshot right/s
        for last in 2 7 12; do # 2 and 7 are within epochs
            train $step 2 cnn "${augment[@]}" --snapshot s/s --max-steps $last
        done
        diff -r right s
    done
    train 1 1 cnn --snapshot s/s --epochs 3 # the parameters fit the model without --augment
    grep -q '^epoch 3/3 ' out
}

@test "the evaluation changes no images" {
    # With so small a rate, no parameter changes in 4 bytes.
    train 1 1 mlp --lr 1e-12 --momentum 0 --csv without
    train 1 1 mlp --lr 1e-12 --momentum 0 "${augment[@]}" --csv with
    [ "$(cut -d, -f5,6 without)" = "$(cut -d, -f5,6 with)" ]
    run ! cmp -s <(cut -d, -f2 without) <(cut -d, -f2 with)
}

@test "--augment refuses other words and images that are too small to be shifted" {
    for words in crops Crop "crop," ",flip" rotate crop,rotate none,crop; do
        fails 2 "--augment $words: want none, crop, flip, or crop,flip;" "$TRAIN" "${options[@]}" --augment "$words"
    done
    image_data tiny 4
    fails 2 "--augment crop: shifts of 4 pixels need images of at least 5 x 5 pixels, and these have 4 x 4;" \
        "$TRAIN" "${options[@]}" --data tiny --augment crop
}

@test "--summary prints the layers of the cnn of PyTorch's MNIST example, and training goes on" {
    train 1 1 cnn --data synthetic --max-steps 1 --summary
    sed -n '/^layer /,/^total /p' out | sed 's/  *$//' | diff - <(
        cat <<END
layer                            output              parameters   forward FLOPs activation bytes
samples                          28 x 28 x 1                  0               0            3,136
convolution_relu                 26 x 26 x 32               320         389,376           86,528
convolution_relu                 24 x 24 x 64            18,496      21,233,664          147,456
max_pooling                      12 x 12 x 64                 0               0           36,864
dropout                          12 x 12 x 64                 0               0           36,864
dense_relu                       128                  1,179,776       2,359,296              512
dropout                          128                          0               0              512
dense                            10                       1,290           2,560               40
total                                                 1,199,882      23,984,896          311,912
END
    )
    grep -q '^stopped after step 1$' out
    train 1 1 cnn --data synthetic --max-steps 1
    run ! grep '^layer ' out
}

@test "--summary prints one table in each step, and its sums leave out the layers in a block" {
    train 1 1 "resnet --depth 8 --width 8" --max-steps 1 --summary
    sed -n '/^layer /,/^total /p' out >table
    grep -q '^  shortcut convolution ' table
    run ! grep -E '.{101}' table
    tail -n +2 table | tr -d , | awk '{ n = NF }
        /^total/ { exit p != $(n - 2) || f != $(n - 1) || b != $n }
        !/^ / { p += $(n - 2); f += $(n - 1); b += $n }
        END { if (!p || !f) exit 1 }'
    for step in 2 3 4 5 7; do
        train $step 2 "resnet --depth 8 --width 8" --max-steps 1 --summary
        sed -n '/^layer /,/^total /p' out | diff table -
    done
}

@test "models refuse wrong depths and widths, and images that are too small" {
    for depth in 1 2 9 12 19 1000; do
        fails 2 "--depth $depth: want 8, 14, 18 or 20;" "$TRAIN" "${options[@]}" --model resnet --depth "$depth"
    done
    fails 2 "--depth 0: want a number from 1 to 1000;" "$TRAIN" "${options[@]}" --depth 0
    for width in 1 12 520 1000000; do
        fails 2 "--width $width: want a multiple of 8 up to 512;" "$TRAIN" "${options[@]}" --model resnet --width $width
    done
    fails 2 "--dropout 0.5: a resnet has no dropout, want 0;" "$TRAIN" "${options[@]}" --model resnet --dropout 0.5
    image_data tiny 5
    fails 2 "--model cnn: images have 5 x 5 pixels, and the model needs 6 x 6;" "$TRAIN" "${options[@]}" --data tiny \
        --model cnn
    fails 2 "--model resnet: images have 5 x 5 pixels, and depth 18 needs 8 x 8;" "$TRAIN" "${options[@]}" --data tiny \
        --model resnet --depth 18
    image_data tiny 3
    fails 2 "--model resnet: images have 3 x 3 pixels, and depth 20 needs 4 x 4;" "$TRAIN" "${options[@]}" --data tiny \
        --model resnet
    image_data tiny 1
    fails 2 "--model resnet: images have 1 x 1 pixels, and depth 20 needs 4 x 4;" "$TRAIN" "${options[@]}" --data tiny \
        --model resnet
}

@test "a batch that is too large for the device's memory: the error says what each kind of memory takes" {
    export CPU_DEVICE_MEMORY=80M
    fails 1 "asked for 44.3 MB of activations, 12.7 MB of 83.9 MB are left after data 55.2 MB, parameters 4.8 MB, gradients \
4.8 MB, optimizer 4.8 MB, activations 1.6 MB; lower --batch, or choose a smaller model" "$TRAIN" --data synthetic \
        --model cnn --batch 512
    fails 1 "of activations, " "$TRAIN" --data synthetic --model resnet --depth 8 --batch 60000
    fails 1 "of parameters, " "$TRAIN" --data synthetic --model resnet --depth 18
    [[ $stderr == *"are left after data 55.2 MB; choose a smaller model, or shard it over more GPUs, as step 5 does "* ]]
    fails 1 "--batch 1000000: the training set has only 60000 samples" "$TRAIN" --data synthetic --model cnn \
        --batch 1000000
}
