#!/usr/bin/env bats
# Tests of the ladder: each rung trains the same model, and the table says what a rung costs.
load ../helpers
programs=(01_single_gpu/ladder/ladder)

climb() {
    timeout "$(patience 60)" "$build/01_single_gpu/ladder/ladder" --data "$tiny" --hidden 8,8 --batch 64 "$@"
}

@test "each rung trains the model of rung 0, and three of them with the same bits as another one" {
    climb >log
    cat log
    [ "$(grep -c '^[0-6] ' log)" = 7 ]
    [ "$(grep -o 'the bits of rung [0-9]\|within [0-9e-]*' log | tr '\n' ';')" = "within 1e-05;the bits of rung 0;within 1e-05;\
within 1e-05;the bits of rung 3;within 1e-03;the bits of rung 5;" ]
}

@test "no rung forgets a wait or an order" {
    CPU_DEVICE_CHECK=1 CPU_DEVICE_CHAOS=1 climb >log
    [ "$(grep -c '^[0-6] ' log)" = 7 ]
}

@test "modelled times and launches fall from rung to rung, and the floor is below" {
    CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 climb --floor >log
    cat log
    grep 'times are modelled' log
    # The columns after the precision: ms, images/s, faster, launches.
    sed -n 's/^\([0-6]\) .* \(fp32\|tf32\) */\1 /p' log >rows
    awk '{ if (NR > 1 && $5 > launches) exit 1; launches = $5 } END { exit NR != 7 }' rows
    awk '$1 == 0 { naive = $2 } $1 == 4 { exit !($2 < naive / 3) }' rows
    awk '$1 == 6 { exit !($5 == 0.1) }' rows
    awk '$6 < 1 || $7 != "(launches)" { exit 1 }' rows # no rung is faster than its floor
}

@test "wrong options are refused in one line" {
    fails 2 "--rung 7" climb --rung 7
    fails 2 "--steps 11: an epoch has only 10" climb --steps 11
    fails 2 "--data text: the ladder needs images" "$build/01_single_gpu/ladder/ladder" --data text
    fails 1 "no-such-folder" climb --data no-such-folder
    fails 2 "--optimizer" climb --optimizer adam
}
