#!/usr/bin/env bash
# run.sh [PATTERN]: builds what the tests need, runs those whose file names match the pattern (all by default), and
# ends with a line that counts them. With LEVEL=quick it runs the unit tests and tests/quick.sh; with LEVEL=test it
# leaves out the tests with the tag test-all. Every test prints TAP. If a test program fails without naming a test, this
# counts as one failure, and so does a process or a file that a test leaves behind. Each file is shown with its seconds, and
# with those that it kept a core busy.
set -u
cd "$(dirname "$0")/.." || exit 1
pattern=${1:-.}
level=${LEVEL:-all}
export TRAIN=$PWD/build/test/01_single_gpu/train
work=$(mktemp -d)
mkdir "$work/tmp"
export TMPDIR=$work/tmp
export CMOCKA_MESSAGE_OUTPUT=TAP
# Every process that the tests start has this variable.
export TEST_RUN=$$-$RANDOM-$RANDOM

# Prints the processes of this run, without this shell and its copies, which started before.
processes() {
    local mark=TEST_RUN=$TEST_RUN
    (unset TEST_RUN && grep -slzx "$mark" /proc/[0-9]*/environ | grep -o '[0-9][0-9]*')
}

# Many tests compile the sources again, in copies of the tree or with small changes. ccache compiles equal ones once.
if command -v ccache >/dev/null; then
    mkdir "$work/bin"
    for compiler in cc gcc clang; do
        ln -s "$(command -v ccache)" "$work/bin/$compiler"
    done
    export PATH=$work/bin:$PATH CCACHE_DIR=$PWD/build/ccache CCACHE_MAXSIZE=1G
    export CCACHE_NOHASHDIR=1 # copies of the tree share objects
fi

memory_files() {
    find /dev/shm -maxdepth 1 -type f -user "$(id -u)" 2>/dev/null | sort
}
memory_files >"$work/memory"

finish() {
    local pids
    mapfile -t pids < <(jobs -p && processes)
    [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# run NAME COMMAND...: shows the results of one test program when it has ended.
run() {
    local name=$1 log=$work/results/$1 status TIMEFORMAT='%0R %0U %0S' seconds user system
    shift
    mkdir -p "$(dirname "$log")"
    { time "$@" </dev/null >"$log" 2>&1; } 2>"$log.time"
    status=$?
    read -r seconds user system < <(tail -n 1 "$log.time") && rm "$log.time"
    [ $status = 0 ] || grep -q '^not ok ' "$log" || echo "not ok - $name ended with status $status" >>"$log"
    {
        flock 9
        echo "== $name, $seconds s ($((user + system)) s of a core)"
        cat "$log"
    } 9>"$work/lock"
}

plan=()
add() { # NAME COMMAND...
    [[ ! $1 =~ $pattern ]] || plan+=("${*@Q}")
}

# A file with the line "# N parts" runs as N programs, and PART tells each of them which part it is.
add_bats() { # FILE
    local name=${1#tests/} parts part
    if [ "$level" = all ]; then
        parts=$(sed -n 's/^# \([0-9]*\) parts$/\1/p' "$1")
        [ -n "$parts" ] || add "$name" bats --tap "$1"
        for ((part = 1; part <= parts; part++)); do
            add "$name-$part" env "PART=$part/$parts" bats --tap "$1"
        done
    elif ! grep -q '^# bats file_tags=test-all' "$1"; then
        add "$name" bats --tap --filter-tags '!test-all' "$1"
    fi
}

# Most tests mostly wait, so more of them than there are cores run at the same time.
start_all() {
    local lanes=$(($(nproc) * 2)) each
    echo "${#plan[@]} test programs run, $lanes at a time; the first results come in about a minute"
    for each in "${plan[@]}"; do
        while [ "$(jobs -pr | wc -l)" -ge $lanes ]; do
            wait -n
        done
        eval "run $each" &
    done
    wait
}

build() { # every program and unit test, warnings as errors
    make -j"$(nproc)" DEVICE=cpu BUILD=build/test WERROR=1 programs unit-tests >"$work/build" 2>&1 || {
        cat "$work/build"
        return 1
    }
    echo "ok 1 - CPU device, warnings are errors"
}

# Prints the files that take longest first, so that the lanes end at about the same time. These few are short, but take
# minutes; the others take about as long as they have lines.
by_length() {
    wc -l "$@" | awk '$2 ~ /tests\/exercises|device\/(products|sanitizers)|text\/docs|tools\/(build|check_gpu|targets)/ { $1 += 1000 }
        $2 != "total" { print $1, $2 }' | sort -rn | cut -d " " -f 2
}

run_tests() {
    local test name
    [ "$level" != all ] || add fuzz tests/fuzz/run.sh "${FUZZ_SECONDS:-10}"
    if [ "$level" != quick ]; then
        for test in $(by_length tests/*/*.bats); do
            add_bats "$test"
        done
    fi
    for test in $(by_length tests/*/test_*.c); do
        name=${test#tests/} name=${name%.c}
        if [[ "$level $name" == quick\ */test_nccl_* ]]; then # as long as all others together
            continue
        elif [ -x "build/test/tests/$name" ]; then
            add "$name" "build/test/tests/$name"
        else
            add "$name" echo "ok 1 - $name # skip clang is not installed"
        fi
    done
    add quick tests/quick.sh
    start_all
}

# none_left: reports processes and files that are left. Processes may take a moment to end.
none_left() {
    local end=$((SECONDS + 5)) left pid file
    while left=$(processes) && [ $SECONDS -lt $end ]; do
        sleep 0.1
    done
    for pid in $left; do
        echo "not ok - process $pid is left: $(tr '\0' ' ' <"/proc/$pid/cmdline")"
    done
    find "$TMPDIR" -mindepth 1 -maxdepth 1 -printf 'not ok - file %p is left\n'
    for file in $(memory_files | comm -13 "$work/memory" -); do
        # Files of other programs are open.
        grep -qsF "$file" /proc/[0-9]*/maps || echo "not ok - file $file is left"
    done
}

# Prints the lines of TAP that match the first pattern and not the second, after the names of their files.
results() { # PATTERN [PATTERN]
    (cd "$work/results" && grep -rE "$1" . | grep -viE "${2:-^$}" | sed 's|^\./||')
}

run build build
[ -n "$(results '^not ok')" ] || run_tests
run left none_left

skip='# *skip'
passed=$(results '^ok' "$skip" | wc -l)
failed=$(results '^not ok' "$skip" | wc -l)
skipped=$(results "^(not )?ok.*# *([Ss]kip|SKIP)" | wc -l)
echo
if [ "$skipped" -gt 0 ]; then
    echo "skipped, and why:"
    results "^(not )?ok.*# *([Ss]kip|SKIP)" | sed -E 's/^([^:]*):.*# *skip *(.*)/\1\t\2/I' | awk -F '\t' '
        { count[$2]++; if (!seen[$0]++) files[$2] = files[$2] " " $1 }
        END { for (why in count) printf "%5d  %s:%s\n", count[why], why ? why : "no reason given", files[why] }' | sort -rn
fi
if [ "$level" = test ]; then
    echo "left to make test-all: fuzz $(grep -l '^# bats .*test-all' tests/*/*.bats | sed 's|^tests/||' | paste -sd ' ')"
fi
if [ "$failed" -gt 0 ]; then
    echo "failed:"
    results '^not ok' "$skip" | sed 's/^/  /'
fi
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
