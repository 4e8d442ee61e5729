#!/usr/bin/env bats
# bats file_tags=test-all
# Tests of the CPU device's NCCL with killed ranks, which cannot clean up: nothing may be left.
# shellcheck disable=SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup_file() {
    make -C "$root" DEVICE=cpu BUILD=build/test build/test/tests/device/test_nccl_deaths
}

setup() {
    mkdir "$BATS_TEST_TMPDIR/work" && cd "$BATS_TEST_TMPDIR/work" || return
    launcher=
}

teardown() {
    [ -z "$launcher" ] || kill -9 "$launcher" 2>/dev/null || true # and with it the ranks
}

# start RANKS [HOSTS]: starts ranks that sum forever. HOSTS has a letter per rank for its host. Sets pids when all ranks
# have begun.
start() {
    touch log
    "$root/build/test/tests/device/test_nccl_deaths" forever "$@" >log 2>errors 3>&- &
    launcher=$!
    for _ in {1..300}; do
        mapfile -t pids <log
        [ ${#pids[@]} = "$1" ] && return
        sleep 0.1
    done
    echo "the ranks did not begin" && return 1
}

# Prints named memory, sockets and files of the ranks, which would stay after a kill.
names() {
    local pid socket
    for pid in "${pids[@]}"; do
        grep -E '/dev/shm|/dev/mqueue|/SYSV' "/proc/$pid/maps"
        find "/proc/$pid/fd" -lname '/*' ! -lname '/dev/null' ! -lname '/memfd:*' ! -lname "$BATS_RUN_TMPDIR/*" -printf '%l\n'
        for socket in $(find "/proc/$pid/fd" -lname 'socket:*' -printf '%l\n' | tr -dc '0-9\n'); do
            awk -v socket="$socket" '$7 == socket && $8 ~ /^\//' /proc/net/unix
        done
    done
}

leave_no_names() { # RANKS [HOSTS]
    start "$@"
    [ -z "$(names)" ] || { names && return 1; }
    kill -9 "$launcher" "${pids[@]}"
    for pid in "$launcher" "${pids[@]}"; do
        until_true 10 has_ended "$pid"
    done
}

@test "killed ranks leave no named memory, sockets or files behind" {
    leave_no_names 3
}

@test "killed ranks on several hosts leave no named memory, sockets or files behind" {
    leave_no_names 3 abb
}

@test "when all other ranks are killed, the last one ends with one line that names one of them" {
    start 3
    kill -9 "${pids[@]:0:2}"
    for pid in "${pids[@]}" "$launcher"; do
        until_true 10 has_ended "$pid"
    done
    [ "$(grep -c '^rank ' errors)" = 1 ]
    grep -E "pid (${pids[0]}|${pids[1]}) " errors
}
