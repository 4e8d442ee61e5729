#!/usr/bin/env bats
# Tests of tests/run.sh on small tests: the levels, the counts, and the processes and files that tests leave behind.
# shellcheck disable=SC2209 # commands of the small tests
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir -p tests/some tests/unit tests/fuzz
    mkdir tools
    cp "$root/tests/run.sh" tests
    cp "$root/tools/begin.sh" tools
    printf 'programs unit-tests:\n' >Makefile
    printf '#!/bin/sh\necho "ok 1 - fuzzed"\n' | tee tests/quick.sh >tests/fuzz/run.sh
    chmod +x tests/quick.sh tests/fuzz/run.sh
    touch tests/unit/test_none.c
    unset LEVEL TEST_RUN
    add light <<<'true'
}

add() { # NAME [TAG]: a file with a test, whose commands are on stdin
    { [ -z "${2:-}" ] || echo "# bats test_tags=$2" && echo "@test \"$1\" {" && cat && echo "}"; } >"tests/some/$1.bats"
}

# counts STATUS SUMMARY PATTERN [LINE...]: run.sh with the pattern ends so, and prints these lines (patterns of grep).
counts() {
    local line
    run tests/run.sh "$3"
    echo "$output"
    [ "$status" = "$1" ] && [ "${lines[-1]}" = "$2" ] || return
    for line in "${@:4}"; do
        grep -q -- "$line" <<<"$output" || return
    done
}

@test "where numbers have a comma, same_curve and near compare what follows the point" {
    with_comma
    seq -f '%g,2.31,,,,,,' 0 12 | tee a >b
    sed 's/31/32/' a >c
    compare() {
        BATS_TEST_DIRNAME=$BATS_TEST_DIRNAME bash -c \
            'bats_require_minimum_version() { :; }; . "$BATS_TEST_DIRNAME/../helpers.bash"; "$@"' bash "$@"
    }
    compare same_curve a b
    compare near 12 0.001 a b
    refute compare same_curve a c
    refute compare near 12 0.001 a c
}

@test "a full or read-only folder for temporary files is named in one line, and nothing else is blamed" {
    mkdir tmp.full
    for script in 'tests/run.sh none' 'tools/data.sh' 'tools/diff_steps.sh 1 2' 'tools/doctor.sh' 'tools/find_libs.sh cpu' 'tools/demo_fsdp.sh'; do
        while IFS=: read -r disk why; do
            # shellcheck disable=SC2086 # words
            on_small_disk "$PWD/tmp.full" "$disk" env TMPDIR="$PWD/tmp.full" MNIST_MIRROR=file:///none sh -c 'cd "$0" && "$@"' "$root" $script
            [ "$status" = 1 ]
            [ "$output" = "error: 1 MB cannot be written to $PWD/tmp.full ($why): make room there, or set TMPDIR to another folder" ]
        done <<<$'256k:No space left on device\n256k,ro:Read-only file system'
    done
}

@test "each level runs its own tests, and the end lists the skipped tests" {
    add heavy test-all <<<'true'
    add absent <<<'skip "there is no cat"'
    mkdir tests/text
    cp tests/some/light.bats tests/text
    printf '// test-all: it is large\n' >tests/unit/test_large.c
    LEVEL=quick counts 0 "2 passed, 0 failed, 2 skipped" ''
    LEVEL=test counts 0 "3 passed, 0 failed, 2 skipped" '' '^    1  there is no cat: some/absent.bats$'
    LEVEL=gpu counts 1 "1 passed, 2 failed" '' '^  unit/test_none:not ok 1 - unit/test_none is not built$'
    LEVEL=rest counts 0 "4 passed, 0 failed, 1 skipped" '' '/4 ok text/light.bats,' '/4 ok some/heavy.bats,'
    counts 0 "6 passed, 0 failed, 3 skipped" ''
    counts 0 "2 passed, 0 failed" some/light
}

@test "failed tests, crashed programs and failed builds are counted, and a file may run in parts" {
    add wrong <<<'false'
    counts 1 "2 passed, 1 failed" 'wrong|light' '^  some/wrong.bats:not ok 1 wrong$'
    add split <<<'[ $PART != 2/3 ]'
    sed -i '1i # 3 parts' tests/some/split.bats
    counts 1 "3 passed, 1 failed" some/split '^  some/split.bats-2:not ok 1 split$'
    printf 'echo "not ok 2 - absent # SKIP"\n' >>tests/quick.sh # as cmocka prints a skipped test
    counts 0 "2 passed, 0 failed, 1 skipped" quick
    printf 'kill -9 $$\n' >>tests/quick.sh
    counts 1 "2 passed, 1 failed, 1 skipped" quick '^  quick:not ok - quick ended with status 137$'
    printf 'programs:\n\tfalse\nunit-tests:\n' >Makefile
    counts 1 "0 passed, 1 failed" ''
}

@test "a process or file that a test leaves behind is a failure" {
    # The process is stopped when it is no longer a copy of bats, because bats waits for the files of its copies.
    add process <<<'sleep 1000 >&- 2>&- 3>&- & until grep -qx sleep /proc/$!/comm; do sleep 0.01; done; kill -STOP $!'
    counts 1 "2 passed, 1 failed" some/process 'process [0-9]* is left: sleep 1000'
    pid=$(sed -n 's/.*process \([0-9]*\) is left: sleep 1000.*/\1/p' <<<"$output" | head -n 1)
    until_true 5 has_ended "$pid" # as it is killed
    add file <<<'touch "${TMPDIR%/bats-run*}/left"'
    counts 1 "2 passed, 1 failed" some/file 'not ok - file .*/left is left'
    [ -w /dev/shm ] || skip "no /dev/shm to leave a file in"
    add memory <<<"touch /dev/shm/left.$$"
    counts 1 "2 passed, 1 failed" some/memory "not ok - file /dev/shm/left.$$ is left"
    rm /dev/shm/left.$$
}
