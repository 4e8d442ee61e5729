#!/usr/bin/env bats
# Tests of tools/plots.py on kept results. targets.bats runs it with results that it makes.
# shellcheck disable=SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    command -v gnuplot >/dev/null || skip "gnuplot is not installed"
    cd "$BATS_TEST_TMPDIR" && mkdir runs || return
    device='device    0: CPU device (a test, no GPU), 3.2 GB'
    for n in 1 2; do
        printf 'step,loss,epoch\n1,2.3%d,\n2,2.0,\n' $n >runs/ranks$n.csv
        printf '%s\nepoch 1/1  loss 2.0  test loss 2.0  accuracy 50.00%%  1.00 s  %d images/s\n' "$device" $((n * 1500)) >runs/ranks$n.txt
    done
    { echo "$device" && for part in parameters gradients optimizer gathered activations; do
        printf '  %-12s %14d %14d  4 P / N\n' $part 4000000 4000000
    done; } >runs/memory-full.txt
    printf '%s\nallreduce 1024 256 float sum -1 8.5 0.12 0.12 0 12.1 0.08 0.08 0\n' "$device" >runs/sizes.txt
}

plots() {
    run python3 -B "$root/tools/plots.py" --runs runs --out out
}

@test "each picture names the machine, and says that it is measured" {
    plots
    [ "$status" = 0 ]
    for picture in losses speed memory sizes; do
        grep -q 'Measured: CPU device (a test, no GPU)' out/$picture.svg
        [ -s out/$picture.png ]
    done
    [[ $output != *warning* ]]
}
