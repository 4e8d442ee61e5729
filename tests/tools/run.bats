#!/usr/bin/env bats
# Tests of tests/run.sh on small tests: the levels, the counts, and the processes and files that tests leave behind.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154,SC2209 # what the small tests do is quoted; bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir -p tests/some tests/unit tests/fuzz
    cp "$root/tests/run.sh" tests
    printf 'programs unit-tests:\n' >Makefile
    printf '#!/bin/sh\necho "ok 1 - fuzzed"\n' | tee tests/quick.sh >tests/fuzz/run.sh
    chmod +x tests/quick.sh tests/fuzz/run.sh
    touch tests/unit/test_none.c
    unset LEVEL TEST_RUN MAKEFLAGS MFLAGS MAKELEVEL
    add light <<<'true'
}

add() { # NAME [TAG]: a file with a test, whose commands are on stdin
    { [ -z "${2:-}" ] || echo "# bats test_tags=$2" && echo "@test \"$1\" {" && cat && echo "}"; } >"tests/some/$1.bats"
}

@test "each level runs its own tests, and the end lists the skipped tests" {
    add heavy test-all <<<'true'
    add absent <<<'skip "there is no cat"'
    mkdir tests/text
    cp tests/some/light.bats tests/text
    printf '// test-all: it is large\n' >tests/unit/test_large.c
    LEVEL=quick run tests/run.sh
    [ "$status" = 0 ] && [ "${lines[-1]}" = "2 passed, 0 failed, 2 skipped" ]
    LEVEL=test run tests/run.sh
    [ "$status" = 0 ] && [ "${lines[-1]}" = "3 passed, 0 failed, 2 skipped" ]
    grep -qx 'make test-all runs all tests, also those of texts, tools and clusters' <<<"$output"
    grep -qx '    1  there is no cat: some/absent.bats' <<<"$output"
    LEVEL=rest run tests/run.sh
    [ "$status" = 0 ] && [ "${lines[-1]}" = "4 passed, 0 failed, 1 skipped" ]
    for name in text/light.bats some/heavy.bats unit/test_large fuzz; do
        grep -q "/4 ok $name," <<<"$output"
    done
    run tests/run.sh
    [ "$status" = 0 ] && [ "${lines[-1]}" = "6 passed, 0 failed, 3 skipped" ]
    run tests/run.sh some/light
    [ "$status" = 0 ] && [ "${lines[-1]}" = "2 passed, 0 failed" ]
}

@test "make test-all runs a file in parts, and each part has its own failures" {
    add split <<<'[ $PART != 2/3 ]'
    sed -i '1i # 3 parts' tests/some/split.bats
    run tests/run.sh some/split
    [ "$status" = 1 ] && [ "${lines[-1]}" = "3 passed, 1 failed" ]
    grep -qx '  some/split.bats-2:not ok 1 split' <<<"$output"
}

@test "failed tests, crashed programs and failed builds are counted as failures" {
    add wrong <<<'false'
    run tests/run.sh 'wrong|light'
    [ "$status" = 1 ] && [ "${lines[-1]}" = "2 passed, 1 failed" ]
    grep -qx '  some/wrong.bats:not ok 1 wrong' <<<"$output"
    printf 'echo "not ok 2 - absent # SKIP"\n' >>tests/quick.sh # as cmocka prints a skipped test
    run tests/run.sh quick
    [ "$status" = 0 ] && [ "${lines[-1]}" = "2 passed, 0 failed, 1 skipped" ]
    grep -q '^1/1 ok quick,' <<<"$output"
    printf 'kill -9 $$\n' >>tests/quick.sh
    run tests/run.sh quick
    [ "$status" = 1 ]
    grep -qx '  quick:not ok - quick ended with status 137' <<<"$output"
    printf 'programs:\n\tfalse\nunit-tests:\n' >Makefile
    run tests/run.sh
    [ "$status" = 1 ] && [ "${lines[-1]}" = "0 passed, 1 failed" ]
}

@test "a process or file that a test leaves behind is a failure" {
    # The process is stopped when it is no longer a copy of bats, because bats waits for the files of its copies.
    add process <<<'sleep 1000 >&- 2>&- 3>&- & until grep -qx sleep /proc/$!/comm; do sleep 0.01; done; kill -STOP $!'
    run tests/run.sh some/process
    [ "$status" = 1 ] && [ "${lines[-1]}" = "2 passed, 1 failed" ]
    pid=$(sed -n 's/.*process \([0-9]*\) is left: sleep 1000.*/\1/p' <<<"$output" | head -n 1)
    until_true 5 has_ended "$pid" # as it is killed

    add file <<<'touch "${TMPDIR%/bats-run*}/left"'
    run tests/run.sh some/file
    [ "$status" = 1 ] && [ "${lines[-1]}" = "2 passed, 1 failed" ]
    grep -q 'not ok - file .*/left is left' <<<"$output"

    [ -w /dev/shm ] || skip "no /dev/shm to leave a file in"
    add memory <<<"touch /dev/shm/{left,nccl-}.$$" # the second could be of another program
    run tests/run.sh some/memory
    rm /dev/shm/{left,nccl-}.$$
    [ "$status" = 1 ] && [ "${lines[-1]}" = "2 passed, 1 failed" ]
    grep -q "not ok - file /dev/shm/left.$$ is left" <<<"$output"
}
