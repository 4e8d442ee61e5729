#!/usr/bin/env bats
# bats file_tags=test-all
# Models against those of PyTorch.
load ../helpers

setup_file() {
    need_train
    export torch_is_missing
    torch_is_missing=$(/usr/bin/python3 -c 'import torch' 2>&1 | tail -n 1)
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    export CPU_DEVICES=1 OMP_NUM_THREADS=1 TMPDIR=$BATS_TEST_TMPDIR
    [ -z "$torch_is_missing" ] || skip "/usr/bin/python3 has no PyTorch: $torch_is_missing"
    training=$BATS_TEST_DIRNAME/torch_models/training.py
    export PYTHONPATH=$root/bench # the networks in PyTorch
}

trains_as_torch() {
    [ -e "$root/data/mnist/train-images-idx3-ubyte.gz" ] || skip "no MNIST here: make data"
    rm -f ./*.snapshot
    /usr/bin/python3 -B "$training" "$TRAIN" "$root/data/mnist" . "$@"
}

@test "cnn has the gradients and losses of PyTorch's MNIST example" {
    trains_as_torch cnn --dropout 0
}

@test "resnets have the gradients and losses of the same networks in PyTorch" {
    trains_as_torch resnet --depth 20 --width 8
    trains_as_torch resnet --depth 18 --width 8
}

@test "gpt has the gradients and losses of the same network in PyTorch, with SGD and with AdamW" {
    cat "$root"/docs/*.md >text
    /usr/bin/python3 -B "$training" "$TRAIN" text:text . gpt --layers 2 --heads 4 --width 32 --context 24
}
