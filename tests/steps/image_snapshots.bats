#!/usr/bin/env bats
# Tests of snapshots with --model cnn and --model resnet: a stopped run continues with the same bits, and all steps load
# each other's snapshots. A residual block is one unit, and each rank initialises its piece of it as one rank would.
# shellcheck disable=SC2030,SC2031,SC2034,SC2154 # bats and helpers.bash set variables across functions
load images

# resumes STEP RANKS MODEL OPTIONS: a run that is stopped within both epochs and continued must end with the same bits.
resumes() {
    local last
    rm -rf right now && mkdir right now
    trains "$1" "$2" "$3" "${4-} --snapshot right/s" || return
    for last in 2 9 12; do
        trains "$1" "$2" "$3" "${4-} --snapshot now/s --max-steps $last" || return
    done
    grep -q '^resumed   now/s: 1 epoch and 3 steps are done$' out || return
    diff -r right now || { echo "step $1, $2 ranks, $3 ${4-}" && return 1; }
}

@test "with a cnn and a resnet, a run of step 5 that is stopped within an epoch continues with the same bits" {
    for model in "${models[@]}"; do
        resumes 5 3 "$model"
    done
}

# bats test_tags=test-all
@test "with a cnn and a resnet, a stopped run of any step continues with the same bits" {
    for model in "${models[@]}"; do
        resumes 1 1 "$model"
        for step in 2 3 4 5 7; do
            resumes $step 2 "$model"
        done
        resumes 5 4 "$model" "--optimizer adam --lr 0.001"
        resumes 7 4 "$model" "--strategy grad --optimizer adamw --lr 0.001 --accumulate 2"
        resumes 7 3 "$model" "--unit-bytes 40000 --recompute 1 --clip 0.3"
        resumes 7 3 "$model" "--precision bf16 --save full"
    done
}

# bats test_tags=test-all
@test "with the optimizers and schedules of the tutorials, a stopped run continues with the same bits" {
    for how in "${tutorials[@]}"; do
        for run in "1 1" "2 3" "5 3" "7 4"; do
            # shellcheck disable=SC2086 # words
            resumes $run "${how%%:*}" "${how#*: }"
        done
    done
}

# becomes WHOLE FROM STEP RANKS MODEL OPTIONS: a run with nothing left to do must turn the snapshot in FROM into the one in
# WHOLE.
becomes() {
    rm -rf now && cp -r "$2" now
    trains "$3" "$4" "$5" "${6-} --max-steps 8 --snapshot now/s" || return
    grep -qx "resumed   now/s: 1 epoch and 2 steps are done; $(text_of NOTHING_LEFT)" out || return
    diff -r "$1" now || { echo "after step $3 with $4 ranks: $5 ${6-}" && return 1; }
}

# bats test_tags=test-all
@test "with a cnn and a resnet, any number of ranks and any step loads shards of four ranks, with the same bits" {
    for model in "${models[@]}"; do
        for from in "5" "7 --strategy grad" "7 --unit-bytes 40000"; do
            rm -rf shards whole && mkdir shards
            trains "${from%% *}" 4 "$model" "--max-steps 8 --snapshot shards/s ${from#[57]}"
            [ "$(find shards -type f | wc -l)" = 5 ]
            # Step 1 writes the values in one file.
            cp -r shards whole
            train 1 1 "$model" --max-steps 8 --snapshot whole/s
            [ "$(find whole -type f)" = whole/s ]
            for step in 2 3 4; do
                becomes whole shards $step 2 "$model"
            done
            for ranks in 1 2 3; do
                becomes whole shards 7 $ranks "$model" "--save full"
                becomes whole shards 7 $ranks "$model" "--strategy none"
                # Shards of step 5 with this number of ranks, and from those the whole again.
                rm -rf other && cp -r shards other
                train 5 $ranks "$model" --max-steps 8 --snapshot other/s
                becomes whole other 1 1 "$model"
                becomes shards other "${from%% *}" 4 "$model" "${from#[57]}"
            done
            becomes shards whole "${from%% *}" 4 "$model" "${from#[57]}"
        done
    done
}

# bats test_tags=test-all
@test "with a cnn and a resnet, all steps continue each other's runs on the same loss curve" {
    for model in "${models[@]}"; do
        rm -f s s.* now.csv
        train 1 1 "$model" --epochs 3 --csv right.csv
        last=0
        for run in "5 3" "7 2" "2 2" "4 3" "1 1" "5 4" "3 2" "7 4 --strategy grad" "1 1"; do
            read -r step ranks more <<<"$run"
            trains "$step" "$ranks" "$model" "--epochs 3 --max-steps $((last += 2)) --snapshot s --csv now.csv $more"
        done
        [ "$last" = 18 ]
        same_curve right.csv now.csv
    done
}

@test "a snapshot of another model, depth, width or image size is refused by name" {
    image_data large 10
    train 5 3 "resnet --depth 8 --width 8" --max-steps 1 --snapshot shards
    train 1 1 "resnet --depth 8 --width 8" --max-steps 1 --snapshot whole
    for step in 1 2 5 7; do
        program=("$build"/0"$step"_*/train)
        for snapshot in shards whole; do
            while IFS='|' read -r name more; do
                read -ra more <<<"$more"
                fails 1 "$snapshot holds resnet8 width 8, 1x8x8 with sgd, not $name with sgd" "${program[0]}" \
                    "${options[@]}" --model "${more[@]}" --snapshot $snapshot
            done <<'END'
resnet8 width 16, 1x8x8|resnet --depth 8 --width 16
resnet14 width 8, 1x8x8|resnet --depth 14 --width 8
cnn 1x8x8|cnn
mlp 64-512-512-10|mlp
resnet8 width 8, 1x10x10|resnet --depth 8 --width 8 --data large
END
        done
    done
}

# units STEP MODEL UNITS OPTIONS: the snapshot of two ranks must have this number of units.
units() {
    rm -f s s.*
    trains "$1" 2 "$2" "--max-steps 1 --snapshot s ${4-}" || return
    grep '^unit' s >units
    [ "$(wc -l <units)" = "$3" ] || { cat units && return 1; }
}

@test "a residual block is one unit" {
    # The first convolution and its normalisation, the blocks, pooling in step 5, the last layer.
    for step in 5 7; do
        pooling=$((step == 5))
        units $step "resnet --depth 8 --width 8" $((2 + 3 + pooling + 1))
        # A block with a projection: two convolutions with 3 x 3 pixels, one of 1 x 1, and three normalisations.
        grep -qx "unit $((9 * 8 * 16 + 9 * 16 * 16 + 8 * 16 + 3 * 2 * 16))" units
        units $step "resnet --depth 14 --width 8" $((2 + 6 + pooling + 1))
        units $step "resnet --depth 20 --width 8" $((2 + 9 + pooling + 1))
        units $step "resnet --depth 18 --width 8" $((2 + 8 + pooling + 1))
    done
    units 7 "resnet --depth 8 --width 8" 3 "--unit-bytes 40000"
}

# initial STEP RANKS MODEL OPTIONS: writes the initial parameters to the file initial.
initial() {
    rm -f s s.*
    program=./untrained.$1 trains "$1" "$2" "$3" "${4-} --snapshot s" || return
    program=./finished.1 train 1 1 "$3" --snapshot s || return # saves them as one file
    mv s initial
}

# With two to four ranks, all pieces but the first begin within a layer of a block.
@test "each rank initialises its piece of a residual block as one rank would" {
    for step in 1 5 7; do
        changed ./untrained.$step $step train.c '/^    train\(&t\);$/d'
    done
    changed ./finished.1 1 train.c '/^static int finished/,/^}/s/return /return 1 || /'
    for model in "${models[@]}"; do
        initial 1 1 "$model"
        mv initial right
        for ranks in 2 3 4; do
            initial 5 $ranks "$model"
            cmp right initial
            initial 7 $ranks "$model" "--strategy grad --unit-bytes 40000"
            cmp right initial
        done
    done
    train 1 1 "$model" --max-steps 1 --snapshot trained
    run ! cmp -s right trained
}
