#!/usr/bin/env bats
# Tests of tools/author/reading.sh, which counts the lines that readers of a step must read, and of the lists in the READMEs.
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
    # Step 2 lists files of its folder only. Each line of these is one to read, or one to skip.
    [ "$(awk '$1 == 2 { print $2 + $4 }' <<<"$output")" = "$(cat 02_*/[!t]*.[ch] | wc -l)" ]
}

@test "the READMEs show the current reading lists" {
    tools/author/reading.sh --write # run it after a change of a list
    for readme in 0*_*/README.md; do
        diff "$root/$readme" "$readme"
    done
}
