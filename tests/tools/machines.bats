#!/usr/bin/env bats
# Tests of .ci/run and tests/machines/run.sh with a stand-in for bare machines, and of the messages of machine.sh.
# shellcheck disable=SC2016,SC2030,SC2031,SC2154 # the stand-ins are quoted; bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    mkdir -p .ci tests/machines bin
    cp "$root/.ci/run" .ci
    cp "$root/README.md" .
    cp "$root/tests/machines/run.sh" tests/machines
    stand_in tests/machines/machine.sh 'echo "machine $*" >>calls; echo "5 passed, 0 failed, 2 skipped"'
    stand_in bin/make 'echo "make $* LEVEL=$LEVEL WERROR=$WERROR" >>calls; [ "$1" = style ] || echo "7 passed, 0 failed"'
    PATH=$PWD/bin:$PATH
    unset LEVEL WERROR
}

stand_in() { # FILE SCRIPT
    printf '#!/bin/sh\n%s\n' "$2" >"$1"
    chmod +x "$1"
}

@test "CI runs the commands of the README on Debian 12, the quick tests on newer systems, and the rest here" {
    run .ci/run
    [ "$status" = 0 ]
    [ "${lines[-1]}" = "22 passed, 0 failed, 6 skipped" ]
    diff - calls <<'END'
machine bookworm set -e; make quickstart
make test
machine noble WERROR=1 make test-quick
machine trixie WERROR=1 make test-quick
make style LEVEL= WERROR=
make test-all LEVEL=rest WERROR=1
END
}

@test "CI fails if one part fails, also without a failed test" {
    stand_in tests/machines/machine.sh '[ "$1" = noble ] || exit 0; echo "5 passed, 3 failed"; exit 1'
    run .ci/run
    [ "$status" = 1 ]
    [ "${lines[-1]}" = "12 passed, 3 failed, 0 skipped" ]
    grep -qx '==== failed: Ubuntu 24.04' <<<"$output"
    stand_in tests/machines/machine.sh '[ "$1" != noble ] || { echo "error: no mirror"; exit 2; }'
    run .ci/run
    [ "$status" = 1 ]
    [ "${lines[-1]}" = "7 passed, 1 failed, 0 skipped" ]
}

@test "machine.sh explains wrong options, and a mirror that does not answer" {
    machine=$root/tests/machines/machine.sh
    fails 2 '--gpu is no option' "$machine" --gpu bookworm true
    fails 2 'a suite and a command' "$machine" bookworm
    [ "$(id -u)" = 0 ] || skip "only root can make a bare system"
    mkdir machines
    stand_in bin/debootstrap 'echo "E: Failed getting release file"; exit 1'
    MACHINES=$PWD/machines fails 2 'cannot make a bare sid: E: Failed getting release file' "$machine" sid true
    [ ! -e machines/sid ]
}
