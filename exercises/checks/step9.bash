# What the checks of step 9 share.
. exercises/checks/gpt.bash
course_words+='|costs|pipeline|stages|tensor'
small=(--data "$SCRATCH/data" --hidden "24,36,12,48" --batch 120 --lr 0.01 --max-steps 20 --log-every 1)

# language_model: from now on, the programs train a transformer on random letters.
language_model() {
    random_text 40000 4
    small=(--data "$SCRATCH/data" --layers 1 --width 24 --heads 6 --context 12 --batch 12 --lr 0.01 --max-steps 20 --log-every 1)
    also=(--model gpt)
}

# sends_enough RANKS OPTION...: rank 0 sends the bytes that print_tensor_cost computes. If it does not, about_sums MEASURED
# COMPUTED, which the check defines, says what that tells.
sends_enough() {
    local measured computed
    must_run "$@"
    read -r measured computed <<<"$(table_row 'parts / step')"
    [ "${measured:-none}" = "$computed" ] ||
        wrong "with $(ranks "$@"), rank 0 sends $measured bytes to other parts in a training step" \
            "Expected: $computed bytes." "$(about_sums "$measured" "$computed")"
    ok "with $(ranks "$@"), rank 0 sends $computed bytes to other parts in a training step"
}

# pair PARTS GROUPS INPUTS OUTPUTS OUTPUTS: with $pieces, each part has the parameters of a pair with which it computes.
pair() {
    local lines status=0
    limited "$pieces" "$@" >"$SCRATCH/pieces" 2>/dev/null || status=$?
    mapfile -t lines <"$SCRATCH/pieces"
    [ ${#lines[@]} != 0 ] || [ $status = 0 ] || lines=('shard_layer crashes, or does not end')
    [ ${#lines[@]} = 0 ] || wrong "with $1 parts, ${lines[0]}" "${lines[@]:1}"
    ok "with $1 parts and a pair of $3-$4-$5 values$([ "$2" = 1 ] || echo " in $2 groups"), each part has what it computes with"
}
