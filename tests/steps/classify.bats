#!/usr/bin/env bats
# Tests of classify, which draws test images with a model's answers, and of the curve of the losses.
load ../helpers
begin_in=$BATS_FILE_TMPDIR

# images SPLIT COUNT: images of 8 x 8 pixels, of which two are white, one below the other. Their place is the label, from 0
# to 7.
images() {
    local i label where
    { idx_header "$2" 8 8 && for ((i = 0; i < $2; i++)); do
        label=$((i * 3 % 8)) where=$((label > 3 ? 4 : 2)),$((2 + label % 4))
        awk -v row="${where%,*}" -v column="${where#*,}" 'BEGIN {
            for (y = 0; y < 8; y++) for (x = 0; x < 8; x++) printf "%s", x == column && (y == row || y == row + 1) ? "w" : "." }'
    done | tr 'w.' '\377\000'; } >"places/$1-images-idx3-ubyte"
    { idx_header "$2" && for ((i = 0; i < $2; i++)); do printf '%d' $((i * 3 % 8)); done | tr 0-9 '\000-\011'; } \
        >"places/$1-labels-idx1-ubyte"
}

setup_file() {
    need_train 01_single_gpu/classify
    cd "$BATS_FILE_TMPDIR" || return
    mkdir places
    images train 64
    images t10k 16
    "$TRAIN" --data places --hidden 16 --batch 32 --epochs 40 --lr 0.2 --log-every 2 --snapshot trained --csv loss.csv >log
    "$TRAIN" --data places --hidden 16 --batch 32 --max-steps 1 --snapshot untrained >/dev/null
}

classify() {
    "${TRAIN%train}classify" --data places --hidden 16 "$@"
}

@test "a trained model answers right, and the images are those of the test set" {
    grep -q 'accuracy 100.00%' log
    run classify --snapshot trained
    [ "$status" = 0 ]
    [ ${#lines[@]} = 3 ]
    # The labels of the first three test images are 0, 3 and 6.
    [ "${lines[0]}" = '@        @      ' ]
    [ "${lines[1]}" = '              @ ' ]
    [[ ${lines[2]} =~ ^says\ 0\ \([0-9.]+%\)\ +says\ 3\ \([0-9.]+%\)\ +says\ 6\ \([0-9.]+%\)$ ]]
}

@test "wrong options are refused in one line" {
    fails 2 "--snapshot FILE is missing" classify
    fails 1 "no-such-file" classify --snapshot no-such-file
    fails 2 "--data text: want images" "${TRAIN%train}classify" --data text --snapshot trained
}

@test "the curve falls from the first loss to the last ones" {
    "$root/tools/curve.sh" loss.csv >curve
    [ "$(wc -l <curve)" = 11 ]
    first=$(awk -F, 'NR == 2 { printf "%.4f", $2 }' loss.csv)
    [[ $(head -n 1 curve) == "loss  $first |*"* ]]
    [[ $(sed -n 10p curve) == *'*' ]]
    fails 1 "no losses" "$root/tools/curve.sh" /dev/null
    fails 2 "usage" "$root/tools/curve.sh" no-such-file
}
