# What the tests of the exercises share. Each exercise has a file in wrong/ with at least three plausible wrong answers: a
# line "answer TEXT", and below it the changes to the step that make this answer, as in the task of an exercise. TEXT is a
# part of the line with which the check must refuse it. Each stretch task has a right answer of the same form in right/.
# The line "from right" in a wrong answer says that it changes the right one and not the step.
# shellcheck disable=SC2154 # ../helpers.bash sets root
load ../helpers

setup_file() {
    need_train 02_multigpu_fork/train 03_multigpu_launcher/launch
    make -C "$root" DEVICE=cpu BUILD=build/test WERROR=1 build/test/exercises/observe.o build/test/steps.a
    export BUILD=build/test DEVICE=cpu WERROR=1
}

# The folders that the checks compile lie in build/, because make knows no sources outside of the course.
setup() {
    cd "$root" || return
    unset MAKEFLAGS MFLAGS MAKELEVEL
    unset_job
    mkdir -p build/test/exercises
    mine=$(mktemp -d build/test/exercises/mine.XXXXXX)
}

teardown() {
    rm -rf "$mine" "build/test/$mine"
}

all_exercises() { # STEP: the numbers of its exercises; debug: of the faults
    exercises/run.sh list | awk -v step="$1." 'index($1, step) == 1 { print $1 }'
}

# Those of this part of the file: with PART=2/6 the second, the eighth and so on (see add_bats in run.sh).
exercises() { # STEP
    local part=${PART:-1/1}
    all_exercises "$1" | awk -v part="${part%/*}" -v parts="${part#*/}" '(NR - part) % parts == 0'
}

files_of() { # NUMBER
    sed -n 's/^file //p' "$(exercises/run.sh folder "$1")/task"
}

# checked NUMBER CODE [TEXT]: the check of what lies in $mine ends with the code, and prints the text.
checked() {
    local status=0
    exercises/run.sh try "$1" "$mine" >"$mine/said" 2>&1 || status=$?
    if [ $status != "$2" ] || ! grep -qF -- "${3:-}" "$mine/said"; then
        printf '%s\n' "exercise $1: wanted status $2 and: ${3:-}" "status $status:"
        cat "$mine/said"
        return 1
    fi
}

# What the check of an exercise without an answer prints, as its README announces.
promise_of() { # NUMBER
    # shellcheck disable=SC2016 # the backticks are Markdown's
    sed -n 's/^\*\*First you see:\*\* `\(.*\)`$/\1/p' "$(exercises/run.sh folder "$1")/README.md"
}

# answer NUMBER [CHANGES]: puts the step's text into $mine, with these changes.
answer() {
    local file
    rm -f "$mine"/*
    for file in $(files_of "$1"); do
        cp "$file" "$mine"
    done
    [ $# = 2 ] || return 0
    ! grep -qx 'from right' "$2" || change "tests/exercises/right/$1"
    change "$2"
}

change() { # CHANGES: makes them in $mine
    local file
    while IFS= read -r file; do
        [ -e "$mine/${file##*/}" ] || cp "$file" "$mine"
        awk -v task="$1" -v file="$file" -f exercises/replace.awk "$mine/${file##*/}" >"$mine/new"
        mv "$mine/new" "$mine/${file##*/}"
    done < <(sed -n 's/^file //p' "$1")
}

# Each exercise of a step fails without a solution in the way that its README announces, and passes with the step's text. A
# stretch task passes with the answer in right/.
fail_unsolved_and_pass_solved() { # STEP
    local number promise right
    for number in $(exercises "$1"); do
        promise=$(promise_of "$number")
        [ -n "$promise" ] || { echo "the README of $number does not say what comes first" && return 1; }
        rm -f "$mine"/*
        exercises/run.sh cut "$number" "$mine"
        checked "$number" 1 "$promise"
        right=tests/exercises/right/$number
        if [ -e "$right" ]; then answer "$number" "$right"; else answer "$number"; fi
        checked "$number" 0
    done
}

# Each wrong answer is refused with its line.
refuse_wrong_answers() { # STEP
    local number text count changes=$BATS_TEST_TMPDIR/changes
    for number in $(exercises "$1"); do
        count=0
        while IFS= read -r text; do
            count=$((count + 1))
            awk -v wanted=$count '/^answer / { n++; next } n == wanted' "tests/exercises/wrong/$number" >"$changes"
            answer "$number" "$changes"
            checked "$number" 1 "$text"
        done < <(sed -n 's/^answer //p' "tests/exercises/wrong/$number")
        [ $count -ge 3 ] || { echo "exercise $number has only $count wrong answers" && return 1; }
    done
}

# A step compiles at every point of solving its exercises in their order. If two exercises replace the same lines, only the
# first of them is cut out.
compile_in_order() { # STEP
    local numbers i j file task
    mapfile -t numbers < <(all_exercises "$1")
    for ((i = 0; i <= ${#numbers[@]}; i++)); do
        rm -f "$mine"/*
        for ((j = i; j < ${#numbers[@]}; j++)); do
            task=$(exercises/run.sh folder "${numbers[j]}")/task
            for file in $(files_of "${numbers[j]}"); do
                [ -e "$mine/${file##*/}" ] || cp "$file" "$mine"
                ! awk -v task="$task" -v file="$file" -f exercises/replace.awk "$mine/${file##*/}" >"$mine/new" 2>/dev/null ||
                    mv "$mine/new" "$mine/${file##*/}"
            done
        done
        for file in "$mine"/*.c; do
            [ ! -e "$file" ] || cc -std=c11 -D_GNU_SOURCE -I. -Icpu_device/include -Wall -fsyntax-only "$file"
        done
    done
}
