#!/usr/bin/env bash
# run.sh [PATTERN]: builds what the tests need, runs the tests whose file names match the pattern (all by
# default), and ends with a line that counts them. Every test speaks TAP; a test program that ends badly
# without saying which test failed counts as one failure itself.
set -u
cd "$(dirname "$0")/.." || exit 1
pattern=${1:-.}
export TRAIN=$PWD/build/test/01_single_gpu/train
TMPDIR=$(mktemp -d)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
passed=0 failed=0 skipped=0

count() { # FILE: adds up its TAP lines
    local ok bad skip
    skip=$(grep -ciE '^(not )?ok .*# *skip' "$1") # cmocka's begin with not
    ok=$(grep -E '^ok ' "$1" | grep -civ '# *skip')
    bad=$(grep -E '^not ok ' "$1" | grep -civ '# *skip')
    passed=$((passed + ok)) failed=$((failed + bad)) skipped=$((skipped + skip))
    return "$bad"
}

run() { # NAME COMMAND...: shows and counts the results of one test program
    local name=$1 log=$TMPDIR/log status begin=$SECONDS
    shift
    [[ $name == build || $name =~ $pattern ]] || return
    echo "== $name"
    "$@" </dev/null 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    [ $SECONDS = $begin ] || echo "# $((SECONDS - begin)) s"
    if count "$log" && [ "$status" != 0 ]; then
        echo "not ok - $name ended with status $status"
        failed=$((failed + 1))
    fi
}

build() {
    local log=$TMPDIR/build.log
    make -j"$(nproc)" "$@" >"$log" 2>&1 || {
        cat "$log"
        return 1
    }
}

build_all() { # every program and unit test, warnings as errors
    build DEVICE=cpu BUILD=build/test WERROR=1 programs unit-tests && echo "ok 1 - CPU device, warnings are errors"
}

# Tests that mostly wait run beside the others, one after the other; what they said is shown after those.
waiting=()
for test in tests/e2e/{launch_nodes,step3,step4,step5,step5_snapshot}.bats tests/cluster/*.bats; do
    [[ ${test#tests/} =~ $pattern ]] && waiting+=("$test")
done

run_waiting() {
    local test begin
    for test in "${waiting[@]}"; do
        begin=$SECONDS
        bats --tap "$test" </dev/null >"$TMPDIR/${test//\//.}" 2>&1
        echo $? >"$TMPDIR/${test//\//.}.status"
        echo "# $((SECONDS - begin)) s, beside other tests" >>"$TMPDIR/${test//\//.}"
    done
}

replay() { # TEST
    cat "$TMPDIR/${1//\//.}"
    return "$(cat "$TMPDIR/${1//\//.}.status")"
}

run build build_all
run_waiting &
beside=$!
export CMOCKA_MESSAGE_OUTPUT=TAP
for test in tests/unit/test_*.c; do
    name=$(basename "$test" .c)
    run "unit/$name" "build/test/tests/unit/$name"
done
for test in tests/*/*.bats; do
    [[ " ${waiting[*]} " = *" $test "* ]] || run "${test#tests/}" bats --tap "$test"
done
run fuzz tests/fuzz/run.sh "${FUZZ_SECONDS:-10}"
wait "$beside"
for test in "${waiting[@]}"; do
    run "${test#tests/}" replay "$test"
done

echo
if [ $skipped -gt 0 ]; then
    echo "$passed passed, $failed failed, $skipped skipped"
else
    echo "$passed passed, $failed failed"
fi
[ $failed = 0 ] && [ $passed -gt 0 ]
