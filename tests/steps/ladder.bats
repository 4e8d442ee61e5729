#!/usr/bin/env bats
# Tests of the ladder: each rung trains the same model, and the table says what a rung costs.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    need_train 01_single_gpu/ladder/ladder
    export LADDER=${TRAIN%train}ladder/ladder
    tiny_data "$BATS_FILE_TMPDIR/tiny"
}

setup() {
    tiny=$BATS_FILE_TMPDIR/tiny
    cd "$BATS_TEST_TMPDIR" || return
}

# Ten steps on the tiny images.
climb() {
    timeout "$(patience 60)" "$LADDER" --data "$tiny" --hidden 8,8 --batch 64 "$@"
}

@test "each rung trains the model of rung 0, and three of them with the same bits as another one" {
    climb >log
    cat log
    [ "$(grep -c '^[0-6] ' log)" = 7 ]
    [ "$(grep -o 'the bits of rung [0-9]\|within [0-9e-]*' log | tr '\n' ';')" = "within 1e-05;the bits of rung 0;within 1e-05;\
within 1e-05;the bits of rung 3;within 1e-03;the bits of rung 5;" ]
}

@test "a rung that trains another model is refused" {
    local flags
    flags=$(sed -n 's/^LIB_FLAGS := //p' "$root/build/test/libs.mk")
    mkdir "$BATS_TEST_TMPDIR/01_single_gpu"
    # The graph reads the samples of the first step in each step.
    sed 's/t->order + t->step \* opt.batch,/t->order,/' "$root/01_single_gpu/ladder/ladder.c" >"$BATS_TEST_TMPDIR/ladder.c"
    refute cmp "$root/01_single_gpu/ladder/ladder.c" "$BATS_TEST_TMPDIR/ladder.c"
    cd "$root"
    # shellcheck disable=SC2086 # several flags
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -I. -Icpu_device/include -pthread "$BATS_TEST_TMPDIR/ladder.c" 01_single_gpu/ladder/climb.c 01_single_gpu/ladder/fused.c \
        build/test/common.a build/test/libcpu_device.a $flags -lm -ldl -o "$BATS_TEST_TMPDIR/ladder"
    LADDER=$BATS_TEST_TMPDIR/ladder
    climb --rung 3
    fails 1 "rung 4 trains another model: after 10 steps, its mean loss is" climb --rung 4
}

@test "bfloat16 has an update in float, and a tolerance of its own" {
    climb --rung 5 --precision bf16 >log
    grep '^5 .*, within 1e-02' log
}

@test "no rung forgets a wait or an order" {
    CPU_DEVICE_CHECK=1 CPU_DEVICE_CHAOS=1 climb >log
    [ "$(grep -c '^[0-6] ' log)" = 7 ]
}

@test "modelled times and launches fall from rung to rung, and the floor is below" {
    CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 climb --floor >log
    cat log
    grep 'times are modelled' log
    # The columns behind the precision: ms, images/s, faster, launches.
    sed -n 's/^\([0-6]\) .* \(fp32\|tf32\) */\1 /p' log >rows
    awk '{ if (NR > 1 && $5 > launches) exit 1; launches = $5 } END { exit NR != 7 }' rows
    awk '$1 == 0 { naive = $2 } $1 == 4 { exit !($2 < naive / 3) }' rows
    awk '$1 == 6 { exit !($5 == 0.1) }' rows
    awk '$6 < 1 || $7 != "(launches)" { exit 1 }' rows # no rung is faster than its floor
}

@test "wrong options are refused in one line" {
    fails 2 "--rung 7" climb --rung 7
    fails 2 "--steps 11: an epoch has only 10" climb --steps 11
    fails 1 "--batch 1000: the training set has only 640 samples" climb --batch 1000
    fails 2 "--hidden 8,x" climb --hidden 8,x
    fails 2 "--data text: the ladder needs images" "$LADDER" --data text
    fails 1 "no-such-folder" climb --data no-such-folder
    fails 2 "--optimizer" climb --optimizer adam
}
