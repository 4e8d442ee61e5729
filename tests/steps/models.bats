#!/usr/bin/env bats
# Tests of layers and data that the steps support without naming them: a layer without parameters in any position, and
# samples with several channels and labels.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats, helpers.bash and every_step.bash set and read variables across functions
load ../helpers
load every_step
more_options=(--dropout 0.2 --lr 0.01)

# changed FILE SED...: builds steps 1, 2, 5 and 7 with this change of a file of common/, and uses them instead of the programs.
changed() {
    local step folder
    mkdir -p "changed/${1%/*}"
    cp "$root/$1" "changed/$1"
    edit "changed/$1" "${@:2}"
    for step in 1 2 5 7; do
        folder=$(cd "$root" && echo 0"$step"_*)
        mkdir -p "changed/$folder"
        compile "changed/$folder/train" "$build/$folder/train.o" "changed/$1"
    done
    build=$PWD/changed
}

# A layer without parameters may come first, and alone in a unit.
@test "a layer without parameters works in any position" {
    changed common/models/mlp.c \
        's/^( *)for \(const char \*text/\1append_dropout(m, 0.3f);\n&/' \
        's/^( *)append_dropout\(m, \(float\).*/&\n\1append_dropout(m, 0.1f);/'
    train 1 1 --csv one
    for step in 2 5 7; do
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
    for step in 2 5 7; do
        for ranks in 2 3; do
            train $step $ranks --csv csv
            same_curve one csv
        done
    done
    costs_agree
}
