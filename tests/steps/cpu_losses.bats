#!/usr/bin/env bats
# A GPU must have the losses of the CPU device. A row of cpu_losses.txt is: the largest relative difference, a program with
# its options, and the losses of its training steps on the CPU device, whose libraries a machine with a GPU may lack.
load ../helpers
programs=({01_single_gpu,07_large_models}/train)

# bats test_tags=gpu
@test "each model has the losses of the CPU device, in fp32, TF32 and bfloat16" {
    while IFS=: read -r most command wanted; do
        # shellcheck disable=SC2086 # words
        timeout "$(patience 60)" "$build/"$command --log-every 1 --csv csv >out
        got=$(awk -F, 'NR > 1 && $2 { printf " %s", $2 }' csv)
        awk -v most="$most" -v wanted="$wanted" -v got="$got" 'BEGIN {
            wrong = (n = split(wanted, a, " ")) != split(got, b, " ") || !n
            for (i = 1; i <= n; i++) wrong += !((b[i] / a[i] - 1) ^ 2 <= most ^ 2)
            exit wrong > 0 }' || differs+="$most:$command:$got, not$wanted"$'\n'
    done <"$root/tests/steps/cpu_losses.txt"
    [ -z "${differs:-}" ] || { echo "$differs" && false; }
}
