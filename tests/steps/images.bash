# What the tests of --model cnn and --model resnet share.
# shellcheck disable=SC2034,SC2154 # bats and helpers.bash set variables across functions
load ../helpers
load every_step

# The smallest sizes at which each kind of layer has something to do: rows that no number of ranks divides, both kinds of
# residual blocks, several groups of normalisation.
models=("cnn" "resnet --depth 8 --width 8")

# A model and its other options, as in PyTorch's MNIST example and as in tutorials with ResNet. Adadelta and Adam divide by
# small numbers, so at the tutorials' rates, rounding errors would grow.
tutorials=("cnn: --optimizer adadelta --lr 0.1 --schedule step --gamma 0.7"
    "resnet --depth 8 --width 8: --nesterov 1 --weight-decay 0.0005 --schedule onecycle --label-smoothing 0.1 --augment crop,flip"
    "resnet --depth 8 --width 8: --optimizer adamw --lr 0.0001 --weight-decay 0.1 --schedule cosine --warmup 4")

# write_images FILE COUNT HEIGHT WIDTH: writes images with noise. The pixels are divided into ten stripes, and the stripe of
# the image's label is brighter.
write_images() {
    { idx_header "${@:2}" && LC_ALL=C awk -v count="$2" -v pixels=$(($3 * $4)) 'BEGIN {
        for (i = 1; i <= count; i++)
            for (p = 0; p < pixels; p++) {
                noise = (noise * 1103 + 12345 + i) % 65536
                printf "%c", 32 + int(noise / 1024) + (int(p * 10 / pixels) == i % 10) * 30
            }
    }'; } >"$1"
}

# image_data FOLDER SIZE: writes 144 training and 31 test images of SIZE x SIZE pixels.
image_data() {
    local split count
    mkdir -p "$1"
    for split in train:144 t10k:31; do
        count=${split#*:} split=${split%:*}
        write_images "$1/$split-images-idx3-ubyte" "$count" "$2" "$2"
        { idx_header "$count" && seq "$count" | sed 's/.*\(.\)/\1/' | tr -d '\n' | tr 0-9 '\000-\011'; } \
            >"$1/$split-labels-idx1-ubyte"
    done
}

prepare() {
    image_data "$BATS_FILE_TMPDIR/images" 8
}

# Two epochs of six steps.
adjust() {
    options=(--data "$BATS_FILE_TMPDIR/images" --batch 24 --epochs 2 --lr 0.01 --log-every 1)
}

# train STEP RANKS MODEL OPTION...: trains one of the models above.
train() {
    local model
    read -ra model <<<"$3"
    run_step "$1" "$2" --model "${model[@]}" "${@:4}"
}

# trains STEP RANKS MODEL OPTIONS: the same with the options in one string.
trains() {
    local more
    read -ra more <<<"${4-}"
    train "$1" "$2" "$3" "${more[@]}"
}
