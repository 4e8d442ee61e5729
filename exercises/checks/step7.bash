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

# table_agrees ROW [LINE...]: in this row of the table that rank 0 printed, the computed number is the measured one. The
# lines explain a mistake.
table_agrees() {
    local measured computed
    read -r measured computed _ <<<"$(awk -v row="  $1 " 'index($0, row) == 1 { print substr($0, 15) }' "$SCRATCH/out")"
    [ "${measured:-0}" = "${computed:-no number}" ] ||
        wrong "in the row \"$1\" of the table, rank 0 has measured $measured bytes and computed $computed" "${@:2}"
    ok "in the row \"$1\" of the table, rank 0 has measured and computed $measured bytes"
}
