#!/usr/bin/env bats
# Tests of docs/nccl.md: its variables and lines of the log are those of NCCL and of the CPU device.
# shellcheck disable=SC2016,SC2154 # Markdown's backticks; helpers.bash sets root
load ../helpers

@test "docs/nccl.md lists the variables of NCCL that the CPU device reads" {
    cd "$root"
    grep -ohE 'getenv\("NCCL_[A-Z_]+"' cpu_device/*.c | cut -d'"' -f2 | sort -u >"$BATS_TEST_TMPDIR/read"
    sed -n '/on the CPU device |$/,/^$/p' docs/nccl.md | grep -oE '^\| `NCCL_[A-Z_]+`' | grep -oE 'NCCL_[A-Z_]+' | sort |
        diff "$BATS_TEST_TMPDIR/read" -
    [ "$(wc -l <"$BATS_TEST_TMPDIR/read")" -gt 0 ]
}

@test "NCCL has each variable and each line of the log that docs/nccl.md explains" {
    local library name line count=0
    library=$(find /usr/local/cuda*/ /usr/lib/ -name 'libnccl.so.2*' 2>/dev/null | head -n 1)
    [ -n "$library" ] || skip "NCCL is not installed"
    has() {
        grep -aqF -- "$1" "$library" || { echo "$library does not have: $1" && return 1; }
        count=$((count + 1))
    }
    while IFS= read -r name; do
        has "$name" >/dev/null || has "${name#NCCL_}" # most are stored without the prefix
    done < <(grep -oE 'NCCL_[A-Z0-9_]+' "$root/docs/nccl.md" | sort -u)
    while IFS= read -r line; do # the values are left out
        has "$line"
    done < <(sed -n '/^| in a line of the log/,/^$/p' "$root/docs/nccl.md" | grep -oE '^\| `[^`]*`' | cut -d'`' -f2 |
        sed -E 's/^NCCL_[A-Z0-9_]* //; s/ (IB|Socket|1)$//; s|NET/.*|NET/|; s/Algo RING proto SIMPLE/Algo %s proto %s/')
    [ $count -gt 0 ]
}
