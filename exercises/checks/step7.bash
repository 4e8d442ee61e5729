# shellcheck shell=bash disable=SC2154 # check.bash sets program
# What the checks of step 7 share.

# on_small_nodes: from now on, each run has simulated nodes with 2 ranks and 2 devices each.
on_small_nodes() {
    cat >"$SCRATCH/on_node" <<END_OF_SCRIPT
#!/bin/sh
first=\$((RANK / 2 * 2))
export CUDA_VISIBLE_DEVICES=\$first,\$((first + 1)) LOCAL_RANK=\$((RANK % 2)) LOCAL_WORLD_SIZE=2
exec "$program" "\$@"
END_OF_SCRIPT
    chmod +x "$SCRATCH/on_node"
    program=$SCRATCH/on_node
}

# table_row ROW: the measured and the computed bytes in this row of the table that rank 0 printed.
table_row() {
    awk -v row="  $1 " 'index($0, row) == 1 { split(substr($0, 15), number, " "); print number[1], number[2] }' "$SCRATCH/out"
}

# table_agrees ROW [LINE...]: they are equal. The lines explain a mistake.
table_agrees() {
    local measured computed
    read -r measured computed <<<"$(table_row "$1")"
    [ "${measured:-0}" = "${computed:-no number}" ] ||
        wrong "in the row \"$1\" of the table, rank 0 has measured $measured bytes and computed $computed" "${@:2}"
    ok "in the row \"$1\" of the table, rank 0 has measured and computed $measured bytes"
}
