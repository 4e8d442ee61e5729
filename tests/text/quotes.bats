#!/usr/bin/env bats
# 3 parts
load ../helpers

@test "what a text quotes is what its commands print" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    # Commands of make use what is built already.
    need_train 01_single_gpu/ladder/ladder 02_multigpu_fork/train 03_multigpu_launcher/{train,launch} 04_multinode/{train,doctor} 05_fsdp/train \
        06_allreduce_demo/allreduce 07_large_models/train 08_pipeline/train 09_tensor/train
    [ -d "$root/data/mnist" ] || skip "no MNIST: make data fetches it"
    cd "$root" || return
    part=${PART:-1/1}
    mapfile -t texts < <(grep -lE '^ *```output|^<!-- draws' README.md 0*/README.md docs/{,slides/}*.md |
        awk -v part="${part%/*}" -v parts="${part#*/}" '(NR - part) % parts == 0')
    NCCL_SOCKET_IFNAME=lo tools/author/record.py --check --programs build/test --limit "$(patience 120)" "${texts[@]}" \
        >"$BATS_TEST_TMPDIR/counted" || return
    [ "$(sed -n 's/ quotes, 0 problems//p' "$BATS_TEST_TMPDIR/counted")" -ge 10 ]
}
