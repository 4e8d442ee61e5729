#!/usr/bin/env bats
# Tests of tools/reading.sh, which counts the lines that readers of a step must read, and of the lists in the READMEs.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    cp -r "$root"/0*_* "$root/common" "$root/tools" .
}

@test "every source of a step is on a reading list or a skip list, and the reading is short enough" {
    run --separate-stderr tools/reading.sh
    [ "$status$stderr" = 0 ] || { printf '%s\n' "$output" "$stderr" && return 1; }
    [ "$(grep -c '^ *[1-7] ' <<<"$output")" = 7 ]
}

@test "the READMEs show the current reading lists" {
    tools/reading.sh --write # run it after a change of a list
    for readme in 0*_*/README.md; do
        diff "$root/$readme" "$readme"
    done
}

# misshapen README: prints what is wrong with the README of a step: it has at most 150 lines; the idea in one line, prose, a
# picture, and then these sections.
misshapen() {
    local sections='The code, Run it, Look at it, Exercises, What PyTorch calls it'
    [ "$(wc -l <"$1")" -le 150 ] || echo "$(wc -l <"$1") lines"
    sed -n 3p "$1" | grep -qE '^\*\*The one idea:\*\* .*\.$' || echo 'no idea in line 3'
    sed '/^## /,$d' "$1" | grep -q '^!\[' || echo 'no picture before the first section'
    sed -n '/^## The code/,/^## Run it/p' "$1" | grep -qE '^<!-- (code|diff) ' || echo 'no code in The code'
    sed -n '/^## Run it/,/^## Look at it/p' "$1" | grep -q '^```output' || echo 'no output in Run it'
    [ "$(sed -n 's/^## //p' "$1" | paste -sd, | sed 's/,/, /g')" = "$sections" ] || echo "other sections than: $sections"
}

@test "the READMEs of the steps have at most 150 lines, and the same sections in the same order" {
    for readme in "$root"/0*_*/README.md; do
        misshapen "$readme" | sed "s|^|${readme#"$root/"}: |"
    done >wrong
    cat wrong
    [ ! -s wrong ]
}

@test "a README with other sections, without a picture or with too many lines is found" {
    finds_in "$root/02_multigpu_fork/README.md" misshapen <<'END'
s/^## Run it/## What it prints/@other sections than
/^!\[/d@no picture before
s/^\*\*The one idea.*/Several processes train./@no idea
/^<!-- (code|diff)/d@no code
s/^```output/```/@no output
s/^## Exercises/\n\n\n\n\n\n\n\n\n\n\n\n&/@lines
END
}

@test "reading.sh names a file that is too long, missing or on no list" {
    seq -f '// %g' 300 >>05_fsdp/fsdp.h
    fails 1 "step 5 asks for 4" tools/reading.sh
    cp "$root/05_fsdp/fsdp.h" 05_fsdp
    sed -i '/^static void barrier/,/^}/s/^    wait_for.*/&\n'"$(yes '    (void)t;\n' | head -n 40 | tr -d '\n')"'/' 04_multinode/train.c
    fails 1 "04_multinode/train.c: barrier has" tools/reading.sh
    cp "$root/04_multinode/train.c" 04_multinode
    touch 02_multigpu_fork/new.h
    fails 1 "02_multigpu_fork/new.h is in no reading list" tools/reading.sh
    rm 02_multigpu_fork/new.h
    sed -i 's/start_ranks/begin_ranks/' 02_multigpu_fork/ranks.c
    fails 1 "02_multigpu_fork/ranks.c has no function start_ranks" tools/reading.sh
}
