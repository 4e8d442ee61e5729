#!/usr/bin/env bats
# bats file_tags=test-all
# Tests under AddressSanitizer with UBSan, and under ThreadSanitizer. Two threads share each kernel, even on one core.

setup() {
    cd "$BATS_TEST_DIRNAME/.." || return
    unset MAKEFLAGS MFLAGS MAKELEVEL
    # ThreadSanitizer sleeps for a second at every exit, unless told otherwise. A fault of a tested program is explained in
    # a handler, with what handlers may not use.
    export OMP_NUM_THREADS=2 TSAN_OPTIONS="die_after_fork=0 atexit_sleep_ms=0 report_signal_unsafe=0"
}

# clean SANITIZERS TEST...: the tests must end with 0 and without a report. Address randomisation is off, because
# ThreadSanitizer fails with some kernels' setting.
clean() {
    local test build=$BATS_FILE_TMPDIR/${1:0:1}san programs=("${@:2}")
    echo 'int main(void) { return 0; }' | clang "-fsanitize=$1" -x c - -o "$BATS_TEST_TMPDIR/probe" 2>/dev/null ||
        skip "clang's $1 sanitizer is not installed"
    make -s -j2 QUIET=@ CC=clang BUILD="$build" LIBRARY="$build/libcpu_device.a" \
        CFLAGS="-O1 -g -fsanitize=$1 -fno-sanitize-recover=all" "${programs[@]/#/$build/tests/}"
    for test in "${@:2}"; do
        timeout 900 setarch -R "$build/tests/$test" >"$BATS_TEST_TMPDIR/log" 2>&1 || { cat "$BATS_TEST_TMPDIR/log" && return 1; }
        ! grep -E 'Sanitizer|runtime error|WARNING' "$BATS_TEST_TMPDIR/log" || return 1
    done
}

# Those whose indices and sizes vary most. The leak check stops threads in a way that conflicts with SIGCONT in NCCL's tests.
@test "AddressSanitizer and UBSan find nothing in tests of rules, memory, products and collectives" {
    clean address,undefined test_api_rules test_cpu_device test_cublas
    ASAN_OPTIONS=detect_leaks=0 clean address,undefined test_nccl_{collectives,mistakes}
}

# Those in which threads meet.
@test "ThreadSanitizer finds nothing in tests of streams and communicators" {
    clean thread test_cpu_device test_nccl_{calls,collectives,communicators,deaths,rendezvous}
}
