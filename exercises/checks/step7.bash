# What the checks of step 7 share.

# on_small_nodes: from now on, each run has simulated nodes with 2 ranks and 2 devices each.
on_small_nodes() {
    starter=(exercises/checks/on_small_node.sh)
}

# costs_agree RANKS OPTION...: in the table that rank 0 prints, the computed numbers are the measured ones. If one is not,
# about_cost ROW MEASURED COMPUTED, which the check defines, says what that tells.
costs_agree() {
    local row measured computed rows=(parameters gradients optimizer gathered activations 'sent / step')
    [ "$device" = gpu ] || rows+=(peak) # there, it also contains the memory of CUDA and NCCL
    must_run "$@"
    for row in "${rows[@]}"; do
        read -r measured computed <<<"$(table_row "$row")"
        [ "${measured:-none}" = "$computed" ] ||
            wrong "with $(ranks "$@"), in the row \"$row\", rank 0 measures $measured bytes and computes $computed" \
                "$(about_cost "$row" "$measured" "$computed")"
    done
    ok "with $(ranks "$@"), rank 0 computes the bytes that it measures"
}

# table_row ROW: the measured and the computed bytes in this row of the table.
table_row() {
    awk -v row="  $1 " 'index($0, row) == 1 { split(substr($0, 15), number, " "); print number[1], number[2] }' "$SCRATCH/out"
}
