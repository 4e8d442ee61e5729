# What the checks of step 5 share.
. exercises/checks/modelled.bash

# Layers of 333, 1102 and 300 parameters. Each number of ranks from 2 to 4 needs padding in one of them.
small_epoch
small+=(--hidden "37,29")
units=(333 1102 300)

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
    read -ra at <<<"$(first_difference "$kept" 11)"
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

# prefetches: with 2 ranks, a layer is computed while the next one is gathered. observe_fsdp.c tries it.
prefetches() {
    rm -f "$SCRATCH/prefetch"
    OBSERVE_PREFETCH=$SCRATCH/prefetch must_run 2
    grep -qsx 'compute yes' "$SCRATCH/prefetch" || wrong 'a layer is computed only when the next one is gathered' \
        'f->stream must wait for the event of this layer only, and the gathers must run on f->comm_stream. They run in the' \
        'order in which you queue them, so this layer comes first.'
    ok 'while rank 1 is late for the gather of a layer, rank 0 computes the layer before'
    ! grep -qsx 'gather no' "$SCRATCH/prefetch" ||
        wrong 'the gather of the next layer does not start before a layer is computed' \
            'fsdp_gather must queue it before it returns. Then the caller queues the computation.'
    [ "$(grep -csx 'gather yes' "$SCRATCH/prefetch")" = 3 ] || wrong 'fsdp_gather is called in another way than in the step'
    ok 'while a layer is computed, the next one is gathered'
}

# prefetch_off: with --prefetch 0, no layer is gathered ahead.
prefetch_off() {
    rm -f "$SCRATCH/prefetch"
    OBSERVE_PREFETCH=$SCRATCH/prefetch must_run 2 --prefetch 0
    # When backward begins, the buffer of layer 1 still holds this layer.
    [ "$(grep -csx 'gather yes' "$SCRATCH/prefetch")" -le 1 ] ||
        wrong 'with --prefetch 0, the next layer is gathered while a layer is computed' \
            'The option sets f->prefetch to 0. Then a gather starts only when its own layer is needed.'
    ok 'with --prefetch 0, no layer is gathered ahead'
}
