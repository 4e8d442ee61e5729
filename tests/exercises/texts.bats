#!/usr/bin/env bats
# bats file_tags=test-all
# The commands in the texts of the exercises run as written, in a tree like a fresh clone. Those of the folded parts need
# debuggers, and are not run, except for those whose output is quoted (tools/author/record.py).
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset BUILD
    export DEVICE=cpu OMP_NUM_THREADS=1 NCCL_SOCKET_IFNAME=lo CPU_DEVICE_TIMEOUT=5
    export TMPDIR=$BATS_TEST_TMPDIR # ranks that the time limit kills leave their rendezvous there
}

# blocks FILE: prints the fenced blocks that begin with a command, before the first folded part.
blocks() {
    awk '/^<details>/ { exit }
        /^```/ { inside = !inside; first = inside; next }
        first { first = 0; command = /^(make|for|head|work\/|exercises\/|0[0-9]_|[A-Z_]+=[^ ]* )/ }
        inside && command' "$1"
}

@test "the commands with which attendees see the faults run" {
    [ -d "$root/data/mnist" ] || skip "no MNIST: make data fetches it"
    copy_tree tree
    cd tree || return
    mkdir -p data
    ln -s "$root/data/mnist" data/mnist
    make -s step1 step2 step3 step4 step8 step9 # which takes longer than the time limit of the commands
    count=0 quoted=0
    for folder in exercises/debug/*/; do
        number=debug.$(basename "$folder" | cut -d - -f 1)
        [ -n "$(blocks "$folder/README.md")" ] || { echo "$number shows no command" && return 1; }
        make -s exercise EX="$number" >/dev/null
        main=$(sed -n 's/^program //p' "$folder/task")
        make -s MINE="work/$number" MAIN="$main" "build/cpu/work/$number/${main##*/}"
        ln -srf "build/cpu/work/$number/${main##*/}" "work/$number" # as make check does
        blocks "$folder/README.md" >commands
        timeout -s KILL 20 bash commands >"$number.out" 2>&1 </dev/null || true
        if grep -nE 'No such file|not found|unknown option' "$number.out"; then
            echo "$number: a command does not run" && cat commands && return 1
        fi
        tools/author/record.py --here --check "$folder/README.md" >quotes
        quoted=$((quoted + $(sed 's/ quotes, .*//' quotes)))
        count=$((count + 1))
    done
    [ $count -ge 14 ]
    [ $quoted -ge 3 ]
}
