#!/usr/bin/env bats
# What a training step asks the device to do: kernels, products, copies, memsets, collectives, events, waits, and the MB that
# its kernels move. A change that adds a launch or bytes to each training step changes a row; docs/language-models.md names
# the numbers of a block.
load ../helpers
programs=(02_multigpu_fork/train 03_multigpu_launcher/launch 07_large_models/train)
needs=(python3)

# counts STEP RANKS MODEL NUMBER...: tools/author/launches.py must count this many of each.
counts() {
    local printed
    printed=$("$root/tools/author/launches.py" --programs "$build" --steps "$1" --ranks "$2" --models "$3" | tail -n 1)
    read -ra row <<<"$printed"
    [ "${row[*]:0:11}" = "$3 $1 $2 ${*:4}" ] || { echo "counted: ${row[*]:0:11}; wanted: $3 $1 $2 ${*:4}" && return 1; }
}

@test "a training step launches as many kernels, products and other operations as this table says" {
    counts 1 1 mlp 11 8 0 0 0 0 0 17.03
    counts 1 1 cnn 31 14 0 0 0 0 0 604.17
    counts 2 2 mlp 11 8 0 0 3 8 0 15.24
    counts 1 1 block 20 12 0 0 0 0 0 1719.7
    counts 7 1 block-bf16 22 12 0 0 4 14 0 1238.49
}
