# What the checks of step 5 share.
. exercises/checks/modelled.bash

# Each number of ranks from 2 to 4 needs padding in one of these layers. Of the even layers, the first one is the largest,
# and of the odd ones the last.
small_epoch
small+=(--hidden "37,7,29")
units=(333 266 232 300)

# shard RANKS: the floats that each rank keeps.
shard() {
    local unit sum=0
    for unit in "${units[@]}"; do
        sum=$((sum + (unit + $1 - 1) / $1))
    done
    echo $sum
}

# keeps RANKS [LINE...]: in the last run, each rank kept its part of the parameters and no more.
keeps() {
    local floats
    floats=$(sed -n 's/^sharding  each rank keeps //p' "$SCRATCH/out")
    [ "$floats" = "$(shard "$1") of $(parameters) parameters" ] ||
        wrong "each of $1 ranks keeps $floats" "Expected: $(shard "$1")." "${@:2}"
    ok "each of $1 ranks keeps $floats"
}

# continued_by_step1 RANKS [LINE...]: step 1 continues from the shards of the ranks with the right losses.
continued_by_step1() {
    local at=()
    must_run "$1" --max-steps 10 --snapshot "$SCRATCH/s"
    limited "$build/01_single_gpu/train" "${small[@]}" --snapshot "$SCRATCH/s" --csv "$SCRATCH/csv" \
        >/dev/null 2>"$SCRATCH/err" ||
        wrong "step 1 does not continue from the shards of $1 ranks" "$(head -n 1 "$SCRATCH/err")" "${@:2}"
    rm -f "$SCRATCH"/s "$SCRATCH"/s.*
    reference_runs
    first_difference "$kept" 11
    [ ${#at[@]} = 0 ] ||
        wrong "step 1 continues from the shards of $1 ranks, but with a wrong loss" \
            "In training step ${at[0]}, it is ${at[1]}; without a stop, it is ${at[2]}." "${@:2}"
    ok "step 1 continues from the shards of $1 ranks with the same losses"
}

# allocated KIND FLOATS [LINE...]: in the last run, rank 0 allocated so many floats of this kind.
allocated() {
    local bytes=$((4 * $2)) text
    text=$(awk -v bytes=$bytes 'BEGIN { if (bytes < 1000) print bytes " B"; else printf "%.1f KB\n", bytes / 1000 }')
    grep -qE "^memory .* $1 $text(,|$)" "$SCRATCH/out" ||
        wrong "a rank allocates $(sed -nE "s/^memory .* $1 ([0-9.]+ K?B).*/\1/p" "$SCRATCH/out") for '$1'" \
            "Expected: $text, for $2 floats." "${@:3}"
    ok "a rank allocates $text for '$1'"
}
