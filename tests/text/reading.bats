#!/usr/bin/env bats
# Tests of tools/author/reading.sh, which counts the lines that readers of a step must read, and of the lists in the READMEs.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cp -r "$root"/0*_* "$root"/{common,tools,watch,zoo} .
}

@test "all files and functions of the reading lists exist" {
    run --separate-stderr tools/author/reading.sh
    [ -z "$(sed '/the limit is\|has at most/d' <<<"$stderr")" ] # make style prints these
    run tools/author/reading.sh
    [ "$(grep -c '^ *[1-9] ' <<<"$output")" = 9 ]
}

@test "the READMEs show the current reading lists" {
    tools/author/reading.sh --write # run it after a change of a list
    for readme in 0*_*/README.md; do
        diff "$root/$readme" "$readme"
    done
}

@test "reading.sh names a file that is too long, and a function that is missing" {
    seq -f '// %g' 300 >>05_fsdp/fsdp.h
    fails 1 "step 5 asks for 4" tools/author/reading.sh
    cp "$root/05_fsdp/fsdp.h" 05_fsdp
    sed -i '/^static void check_replicas/,/^}/s/^    wait_for.*/&\n'"$(yes '    (void)t;\n' | head -n 40 | tr -d '\n')"'/' 04_multinode/train.c
    fails 1 "04_multinode/train.c: check_replicas has" tools/author/reading.sh
    cp "$root/04_multinode/train.c" 04_multinode
    sed -i 's/start_ranks/begin_ranks/' 02_multigpu_fork/ranks.c
    fails 1 "02_multigpu_fork/ranks.c has no function start_ranks" tools/author/reading.sh
}
