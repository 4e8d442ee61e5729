#!/usr/bin/env bash
# run.sh [PATTERN]: builds what the tests need, runs those whose file names match the pattern (all by default), and
# ends with a line that counts them. LEVEL chooses them:
#   quick  the unit tests and tests/quick.sh
#   test   all but the folders text, tools, cluster and fuzz, and the tests with the tag test-all
#   rest   those that test leaves out
# Every test prints TAP. If a test program fails without naming a test, this counts as one failure, and so does a process
# or a file that a test leaves behind. A core-second is a second for which a program keeps a core busy.
set -u
cd "$(dirname "$0")/.." || exit 1
pattern=${1:-.}
level=${LEVEL:-all}
export TRAIN=$PWD/build/test/01_single_gpu/train
work=$(mktemp -d)
mkdir "$work/tmp" "$work/results"
export TMPDIR=$work/tmp
export CMOCKA_MESSAGE_OUTPUT=TAP
export PATH=$PWD/build/npm/node_modules/bats/bin:$PATH # tools/deps.sh puts bats there where the packaged one is too old
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
        ! command -v $compiler >/dev/null || ln -s "$(command -v ccache)" "$work/bin/$compiler"
    done
    export PATH=$work/bin:$PATH CCACHE_DIR=$PWD/build/ccache CCACHE_MAXSIZE=1G
    export CCACHE_NOHASHDIR=1 # copies of the tree share objects
fi

memory_files() { # the CPU device makes no nccl-*, but another program of this user may run NCCL
    find /dev/shm -maxdepth 1 -type f -user "$(id -u)" ! -name 'nccl-*' 2>/dev/null | sort
}
memory_files >"$work/memory"
touch "$work/"{plan,running,ended}

finish() {
    local pids
    mapfile -t pids < <(jobs -p && processes)
    [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Prints how many seconds the program took in the last run of this level. Without a last run, this is guessed from the lines
# of its file. In the listed files, a few lines take minutes.
expected_seconds() { # NAME FILE
    local lines cost
    lines=$(wc -l <"$2")
    cost=$(sed -n "s|^$level $1 ||p" build/test-costs 2>/dev/null)
    case $2 in
    *.c) echo "${cost:-$((lines / 100))}" ;;
    tests/exercises/* | tests/cluster/* | */sanitizers* | tests/steps/gpu_build* | tests/text/docs* | tests/text/readmes* | \
        tests/tools/build* | tests/tools/check_gpu* | tests/tools/targets*)
        echo "${cost:-60}"
        ;;
    *) echo "${cost:-$((lines / 10))}" ;;
    esac
}

add() { # NAME FILE COMMAND...
    [[ ! $1 =~ $pattern ]] || printf '%s\t%s\t%s\n' "$(expected_seconds "$1" "$2")" "$1" "${*:3}" >>"$work/plan"
}

# Prints how long the other tests take, if they and half of the running ones are as much slower than expected as those that
# have ended.
time_left() {
    awk -F '\t' -v seconds=$((SECONDS - started)) -v ended="$work/ended" -v running="$work/running" '
        BEGIN { while ((getline < running) > 0) part[$1] = 0.5; while ((getline < ended) > 0) part[$1] = 1 }
        { all += $1 + 1; done += part[$2] * ($1 + 1) }
        END { left = seconds * (all - done) / done; printf "%d:%02d left\n", left / 60, left % 60 }' "$work/plan"
}

# Prints the failed tests of an output. For a skipped test, cmocka writes "not ok", too.
failures() { # FILE
    grep '^not ok' "$1" | grep -vi '# *skip'
}

# run NAME COMMAND...: runs one test program, and prints a line when it has ended. If a test fails, the whole output follows.
run() {
    local name=$1 log=$work/results/$1 status seconds user system failed TIMEFORMAT='%0R %0U %0S'
    shift
    mkdir -p "$(dirname "$log")"
    echo "$name" >>"$work/running"
    { time "$@" </dev/null >"$log" 2>&1; } 2>"$log.time"
    status=$?
    read -r seconds user system < <(tail -n 1 "$log.time") && rm "$log.time"
    failed=$(failures "$log")
    if [ $status != 0 ] && [ -z "$failed" ]; then
        failed="not ok - $name ended with status $status"
        echo "$failed" >>"$log"
    fi
    {
        flock 9
        printf '%s\t%s\t%s\n' "$name" $((user + system)) "$seconds" >>"$work/ended"
        echo "$(wc -l <"$work/ended")/$count ${failed:+FAILED}$([ -n "$failed" ] || echo ok) $name," \
            "$seconds s, $((user + system)) core-seconds; $(time_left)"
        [ -z "$failed" ] || grep -v '^ok ' "$log"
    } 9>"$work/lock"
}

# Succeeds if make test leaves out all tests of the file: those of texts, tools and clusters, and those with a tag.
is_late() { # FILE
    [[ $1 == tests/@(text|tools|cluster)/* ]] || grep -qE '^(# bats file_tags=|// )test-all' "$1"
}

# A file with the line "# N parts" runs as N programs, and PART tells each of them which part it is.
add_bats() { # FILE
    local name=${1#tests/} parts='' part bats='bats --tap'
    case $level in
    test)
        ! is_late "$1" || return 0
        bats+=' --filter-tags !test-all'
        ;;
    rest)
        if ! is_late "$1"; then
            grep -q '^# bats test_tags=test-all' "$1" || return 0
            bats+=' --filter-tags test-all'
        fi
        ;;
    esac
    [ "$level" = test ] || parts=$(sed -n 's/^# \([0-9]*\) parts$/\1/p' "$1")
    [ -n "$parts" ] || add "$name" "$1" "$bats $1"
    for ((part = 1; part <= parts; part++)); do
        add "$name-$part" "$1" "env PART=$part/$parts $bats $1"
    done
}

add_built() { # NAME FILE
    local program=build/test/${2%/*}/${1##*/}
    if [ ! -x "$program" ]; then
        program="echo ok 1 - $1 # skip clang is not installed"
    elif [[ $2 == cpu_device/* ]]; then
        program="env -C cpu_device ../$program"
    fi
    add "$1" "$2" "$program"
}

build() { # every program and unit test
    make -j"$(nproc)" DEVICE=cpu BUILD=build/test programs unit-tests >"$work/build" 2>&1 || {
        cat "$work/build"
        return 1
    }
    echo "ok 1 - CPU device${WERROR:+, warnings are errors}"
}

plan() {
    local test name
    shopt -s nullglob # a folder may have no tests of one kind
    [[ $level != @(all|rest) ]] || add fuzz tests/fuzz/run.sh "tests/fuzz/run.sh ${FUZZ_SECONDS:-10}"
    if [ "$level" != quick ]; then
        for test in tests/*/*.bats cpu_device/tests/*.bats; do
            add_bats "$test"
        done
    fi
    for test in tests/*/test_*.c cpu_device/tests/test_*.c; do
        name=${test#tests/} name=${name%.c}
        if [[ "$level $name" == quick\ */test_nccl_* ]]; then # as long as all others together
            continue
        elif [[ $level == test ]] && is_late "$test"; then
            continue
        fi
        if [ "$level" != rest ] || is_late "$test"; then
            add_built "$name" "$test"
        fi
        [[ $name != *kernels ]] || add_built "${name}_cu" "$test" # in each level, as a bare machine has no clang
    done
    [ "$level" = rest ] || add quick tests/quick.sh tests/quick.sh
}

# Prints for how many hundredths of a second the cores of this machine have been idle, all together.
idle_time() {
    awk '/^cpu / { print $5 + $6 }' /proc/stat
}

# Waits until another test can start: if fewer run than there are lanes, or if those that run have left half a core idle for
# two seconds, because they mostly wait.
await_lane() {
    local running before
    while running=$(jobs -pr | wc -l) && [ "$running" -ge $lanes ]; do
        before=$(idle_time)
        for _ in 1 2 3 4; do
            sleep 0.5
            [ "$(jobs -pr | wc -l)" = "$running" ] || continue 2
        done
        [ "$running" -ge $((2 * lanes)) ] || [ $(($(idle_time) - before)) -lt 100 ] || return 0
    done
}

# Starts those that take longest first, so that the lanes end at about the same time.
run_all() {
    local name command words count lanes=$(($(nproc) * 3)) started=$SECONDS
    count=$(wc -l <"$work/plan")
    echo "$count test programs run, $lanes at a time, or more while a core is idle"
    while IFS=$'\t' read -r _ name command; do
        await_lane
        read -ra words <<<"$command"
        run "$name" "${words[@]}" &
    done < <(sort -rn "$work/plan")
    wait
}

# Keeps the seconds for the next run, and prints the ten tests that kept cores busy for longest.
show_costs() {
    {
        awk -F '\t' -v level="$level" '{ print level, $1, $3 }' "$work/ended"
        cat build/test-costs 2>/dev/null
    } | awk '!seen[$1 " " $2]++' >"$work/costs"
    mkdir -p build && cp "$work/costs" build/test-costs
    echo "$(awk -F '\t' '{ sum += $2 } END { print sum }' "$work/ended") core-seconds in $SECONDS s, and most of them in:"
    sort -t $'\t' -k 2,2rn "$work/ended" | head -n 10 | awk -F '\t' '{ printf "%5d  %s\n", $2, $1 }'
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

echo "builds all programs and unit tests"
build >"$work/results/build" 2>&1 || echo 'not ok - the build' >>"$work/results/build"
cat "$work/results/build"
[ -n "$(results '^not ok')" ] || { plan && run_all; }
none_left >"$work/results/left" # its lines are among the failed ones at the end

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
[ ! -s "$work/ended" ] || show_costs
if [ "$level" = test ]; then
    echo "make test-all runs all tests, also those of texts, tools and clusters"
fi
if [ "$failed" -gt 0 ]; then
    echo "failed:"
    results '^not ok' "$skip" | sed 's/^/  /'
fi
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
