#!/usr/bin/env bash
# run.sh [PATTERN]: builds what the tests need, runs those whose file names match the pattern (all by default), and
# ends with a line that counts them. LEVEL chooses them:
#   quick  the unit tests and tests/quick.sh
#   test   all but the folders text, tools, cluster and fuzz, and the tests with the tag test-all
#   rest   those that test leaves out
#   gpu    unit tests and the tests with the tag gpu, on DEVICE: gpu, or cpu to try them there
# Every test prints TAP. If a test program fails without naming a test, this counts as one failure, and so does a process
# or a file that a test leaves behind.
set -u
cd "$(dirname "$0")/.." || exit 1
pattern=${1:-.}
level=${LEVEL:-all}
build=build/test most=$(($(nproc) * 4)) # many tests mostly wait
options=(DEVICE=cpu)
if [ "$level" = gpu ]; then
    export SHARE_GPUS=1 NCCL_SOCKET_IFNAME=lo CUDA_MODULE_LOADING=LAZY DEVICE=${DEVICE:-cpu}
    export NCCL_NVLS_ENABLE=0 # with NVLS, NCCL may add numbers in a different order in each run
    [ "$DEVICE" = cpu ] || build=build/check-gpu-native options=(DEVICE=gpu ARCH=native) most=3
fi
export TRAIN=$PWD/$build/01_single_gpu/train
. tools/begin.sh
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
if command -v ccache >/dev/null && [[ $PWD != *'$'* ]]; then # in its settings, $ begins the name of a variable
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
touch "$work/"{plan,ended}

finish() {
    local pids
    mapfile -t pids < <(jobs -p && processes)
    [ ${#pids[@]} = 0 ] || kill -KILL "${pids[@]}" 2>/dev/null
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM

# Prints a number that is larger for files that take longer: their lines, and more for those in which a few lines take minutes.
weight() { # FILE
    case $1 in
    tests/exercises/* | tests/cluster/* | */sanitizers* | */every.bats | */continue.bats | tests/text/quotes* | \
        tests/text/readmes* | tests/tools/build* | tests/tools/check_gpu* | tests/tools/targets* | \
        tests/unit/test_layers_in_parts.c)
        echo 600
        ;;
    *.c) echo 5 ;;
    *) wc -l <"$1" ;;
    esac
}

add() { # NAME FILE COMMAND...
    [[ ! $1 =~ $pattern ]] || echo "$(weight "$2") $1 ${*:3}" >>"$work/plan"
}

# Prints the failed tests of an output. For a skipped test, cmocka writes "not ok", too.
failures() { # FILE
    grep '^not ok' "$1" | grep -vi '# *skip'
}

# run NAME COMMAND...: runs one test program, and prints a line when it has ended. If a test fails, the whole output follows.
run() {
    local name=$1 log=$work/results/$1 begin=$SECONDS status failed
    shift
    mkdir -p "$(dirname "$log")"
    "$@" </dev/null >"$log" 2>&1
    status=$?
    failed=$(failures "$log")
    if [ $status != 0 ] && [ -z "$failed" ]; then
        failed="not ok - $name ended with status $status"
        echo "$failed" >>"$log"
    fi
    {
        flock 9
        echo "$name" >>"$work/ended"
        echo "$(wc -l <"$work/ended")/$count ${failed:+FAILED}$([ -n "$failed" ] || echo ok) $name, $((SECONDS - begin)) s"
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
    gpu)
        grep -qE '^# bats test_tags=.*\<gpu' "$1" || return 0
        bats+=' --filter-tags gpu'
        ;;
    esac
    [ "$level" = test ] || parts=$(sed -n 's/^# \([0-9]*\) parts$/\1/p' "$1")
    [ -n "$parts" ] || add "$name" "$1" "$bats $1"
    for ((part = 1; part <= parts; part++)); do
        add "$name-$part" "$1" "env PART=$part/$parts $bats $1"
    done
}

add_built() { # NAME FILE
    local program=$build/${2%/*}/${1##*/}
    if [ ! -x "$program" ]; then
        program="echo ok 1 - $1 # skip clang is not installed"
        [ "$level" != gpu ] || program="echo not ok 1 - $1 is not built" # the report would say nothing of its kernels
    elif [[ $2 == cpu_device/* ]]; then
        program="env -C cpu_device ../$program"
    fi
    add "$1" "$2" "$program"
}

build() { # every program and unit test
    make -j"$(nproc)" "${options[@]}" BUILD=$build programs unit-tests >"$work/build" 2>&1 || {
        cat "$work/build"
        return 1
    }
    echo "ok 1 - ${options[0]}${WERROR:+, warnings are errors}"
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
        elif [[ $level == gpu && ($name != unit/* || $DEVICE$name == gpu*/test_cpu_*) ]]; then
            continue
        elif [[ $level == test ]] && is_late "$test"; then
            continue
        fi
        if [ "$level" != rest ] || is_late "$test"; then
            add_built "$name" "$test"
        fi
        if [[ $level == @(all|rest) && $name == unit/test_@(kernels|layers_in_parts) ]]; then
            add_built "${name}_cu" "$test" # the kernels of GPUs, on the host
        fi
    done
    [[ $level == @(rest|gpu) ]] || add quick tests/quick.sh tests/quick.sh
}

# Starts those that take longest first, so that all end at about the same time.
run_all() {
    local name words count
    count=$(wc -l <"$work/plan")
    echo "$count test programs run, $most at a time"
    while read -r _ name words; do
        [ "$(jobs -pr | wc -l)" -lt $most ] || wait -n
        # shellcheck disable=SC2086 # a command
        run "$name" $words &
    done < <(sort -rn "$work/plan")
    wait
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
if [ "$level" = test ]; then
    echo "make test-all runs all tests, also those of texts, tools and clusters"
fi
if [ "$failed" -gt 0 ]; then
    echo "failed:"
    results '^not ok' "$skip" | sed 's/^/  /'
fi
echo "$passed passed, $failed failed$([ "$skipped" = 0 ] || echo ", $skipped skipped")"
[ "$failed" = 0 ] && [ "$passed" -gt 0 ]
