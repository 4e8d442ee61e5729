#!/usr/bin/env bats
# Tests of layers, models and data that the steps support without naming them: dropout (a layer without parameters, whose
# random numbers depend on the sample), and samples with several channels and labels.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats, helpers.bash and every_step.bash set and read variables across functions
load ../helpers
load every_step
more_options=(--dropout 0.2 --lr 0.01)

@test "all steps can load each other's snapshots, with and without dropout" {
    train 5 3 --snapshot s --max-steps 3 # as shards
    train 7 2 --snapshot s --max-steps 6
    train 2 2 --snapshot s --max-steps 9
    train 1 1 --snapshot s
    train 1 1 --snapshot s --epochs 5 --dropout 0
    grep -q '^model     mlp 8-32-22-14-10, [0-9]* parameters$' out
    train 5 4 --snapshot s --epochs 6
    grep -q '^epoch 6/6 ' out
}

@test "the evaluation uses no dropout" {
    # With so small a rate, no parameter changes in 4 bytes.
    train 1 1 --lr 1e-12 --momentum 0 --dropout 0 --csv without
    train 1 1 --lr 1e-12 --momentum 0 --dropout 0.9 --csv with
    [ "$(cut -d, -f5,6 without)" = "$(cut -d, -f5,6 with)" ]
    run ! cmp -s <(cut -d, -f2 without) <(cut -d, -f2 with)
}

@test "step 7 drops the same outputs with each strategy, with recomputation and accumulation" {
    train 7 4 --save full --snapshot right
    for more in "--strategy grad" "--prefetch 0" "--unit-bytes 4000" "--unit-bytes 4000 --recompute 1" \
        "--unit-bytes 1000000 --recompute 1"; do
        rm -f s
        # shellcheck disable=SC2086 # a list of words
        train 7 4 --save full --snapshot s $more
        cmp right s
    done
    train 1 1 --csv one
    for more in "--strategy none" "--strategy hybrid" "--accumulate 2" "--accumulate 3 --recompute 1 --unit-bytes 4000"; do
        # shellcheck disable=SC2086
        train 7 4 --csv csv $more
        same_curve one csv
    done
}

# changed FILE SED...: builds all steps with this change of a file of common/, and uses them instead of the programs.
changed() {
    local step folder
    mkdir -p "changed/${1%/*}"
    cp "$root/$1" "changed/$1"
    edit "changed/$1" "${@:2}"
    for step in 1 2 3 4 5 7; do
        folder=$(cd "$root" && echo 0"$step"_*)
        mkdir -p "changed/$folder"
        compile "changed/$folder/train" "$build/$folder/train.o" "changed/$1"
    done
    cp "$build/03_multigpu_launcher/launch" changed/03_multigpu_launcher/
    build=$PWD/changed
}

# A layer without parameters may come first, and alone in a unit.
@test "a layer without parameters works in any position" {
    changed common/models/mlp.c \
        's/^( *)for \(const char \*text/\1append_dropout(m, 0.3f);\n&/' \
        's/^( *)append_dropout\(m, \(float\).*/&\n\1append_dropout(m, 0.1f);/'
    train 1 1 --csv one
    for step in 2 3 4 5 7; do
        rm -f s s.*
        train $step 3 --csv csv --snapshot s --max-steps 7
        train $step 3 --csv csv --snapshot s
        same_curve one csv
    done
    train 7 3 --strategy grad --csv csv
    same_curve one csv
    rm -f s s.*
    train 5 3 --snapshot s --max-steps 7
    grep -q '^unit 0$' s # the first layer is a unit
    train 1 1 --snapshot s
}

# Half as many images with two channels (every other pixel) and two labels each.
@test "samples with several channels and labels work in all steps" {
    changed common/data/data.c 's/^( *)train->inputs = test->inputs = .*/\1train->shape.channels = test->shape.channels = 2;\
        train->shape.width \/= 2;\
        test->shape.width \/= 2;\
        train->targets = test->targets = 2;\
        train->count \/= 2;\
        test->count \/= 2;\
&/'
    train 1 1 --csv one
    grep -q ': 320 training and 50 test images, pixel mean 0.1938 0.1552, deviation 0.0093 0.0675$' out
    grep -q '^model     mlp 8-32-22-14-20, ' out
    # An untrained model gives each of ten classes the same probability.
    awk -F, 'NR == 2 { exit !($2 > 2.2 && $2 < 2.45) }' one
    for step in 2 3 4 5 7; do
        for ranks in 2 3; do
            train $step $ranks --csv csv
            same_curve one csv
        done
    done
    grep -q '^costs of a rank' out
    awk '$1 ~ /^(activations|peak)$/ { rows++; bad += $2 != $3 } END { exit rows != 2 || bad }' out
}

@test "--dropout accepts rates from 0 to 1" {
    for rate in -0.1 1.1 nan half; do
        fails 2 "--dropout $rate" "$TRAIN" --dropout $rate
    done
    train 1 1 --dropout 1
}
