# What the tests of the exercises share. Files in wrong/ and right/ hold answers to an exercise: a line "answer TEXT", and
# below it the changes to the step that make this answer, as in the task of an exercise. TEXT is a part of what the check
# must print; an answer in right/ may have none. The changes are those of the first source of the exercise, if no line
# "file" names another one. The line "from right 2" says that they begin with the second answer in right/ and not with
# the step.
# shellcheck disable=SC2154 # ../helpers.bash sets root
load ../helpers

# The parts of a file run at the same time, and share what they do not change.
setup_file() {
    export BUILD=build/test DEVICE=cpu
    need_train 02_multigpu_fork/train 03_multigpu_launcher/launch
    cd "$root" || return
    local objects=(steps.a exercises/{crash,observe,checks/{kernels,pieces}}.o)
    if command -v g++ >/dev/null; then
        local kernels=(*/kernels/*.cu)
        kernels=("${kernels[@]/#/exercises/}")
        objects+=("${kernels[@]/%.cu/_on_host.o}")
    fi
    flock build/test make DEVICE=cpu BUILD=build/test "${objects[@]/#/build/test/}"
}

# The folders that the checks compile lie in build/, because make knows no sources outside of the course. A part has the
# same folder in each run, so that ccache knows its sources.
setup() {
    cd "$root" || return
    unset MAKEFLAGS MFLAGS MAKELEVEL
    unset_job
    export CHAOS=1 # one seed of random delays, where an attendee's check takes three
    mine=build/test/exercises/$(basename "$BATS_TEST_FILENAME" .bats)${PART:+.${PART%/*}}
    mkdir -p "$mine"
}

teardown() {
    rm -rf "$mine" "build/test/$mine" "build/${mine##*/}"
}

all_exercises() { # STEP: the numbers of its exercises; debug: of the faults; [0-9]: of all steps
    printf '%s\n' exercises/[0-9]* exercises/debug/* | sed 's|exercises/||; s|debug/|debug.|; s/-.*//' | sort -V | grep "^$1[.]"
}

# Those of this part of the file: with PART=2/6 the second, the eighth and so on (see add_bats in run.sh).
exercises() { # STEP
    local part=${PART:-1/1}
    all_exercises "$1" | awk -v part="${part%/*}" -v parts="${part#*/}" '(NR - part) % parts == 0'
}

folder_of() { # NUMBER; run.sh would take longer
    [[ $1 == debug.* ]] && echo exercises/debug/"${1#debug.}"-* || echo exercises/"$1"-*
}

files_of() { # NUMBER
    sed -n 's/^file //p' "$(folder_of "$1")/task"
}

# checked NUMBER CODE [TEXT]: the check of what lies in $mine ends with the code, and prints the text. Right answers have
# more time than an attendee's, and still more on a busy machine. Wrong ones may hang, so they have the attendee's.
checked() {
    local status=0 limits=()
    [ "$2" != 0 ] || limits=("LIMIT=$(patience 30)" "CPU_DEVICE_TIMEOUT=$(patience 15)")
    env "${limits[@]}" exercises/run.sh try "$1" "$mine" >"$mine/said" 2>&1 || status=$?
    if [ $status != "$2" ] || ! grep -qF -- "${3:-}" "$mine/said"; then
        printf '%s\n' "exercise $1: wanted status $2 and: ${3:-}" "status $status:"
        cat "$mine/said"
        return 1
    fi
}

# What the check of an exercise without an answer prints, as its README announces.
promise_of() { # NUMBER
    # shellcheck disable=SC2016 # the backticks are Markdown's
    sed -n 's/^\*\*First you see:\*\* `\(.*\)`$/\1/p' "$(folder_of "$1")/README.md"
}

# answer NUMBER [right|wrong N]: puts the step's text into $mine, or the answer N in right/ or wrong/.
answer() {
    local file base changes=$BATS_TEST_TMPDIR/${2:-step}.${3:-}
    [ $# = 1 ] || changes_of "$@" >"$changes"
    read -ra base <<<"$([ $# = 1 ] || sed -n 's/^from //p' "$changes")"
    if [ ${#base[@]} != 0 ]; then
        answer "$1" "${base[@]}"
    else
        rm -f "$mine"/*
        for file in $(files_of "$1"); do
            cp "$file" "$mine"
        done
    fi
    [ $# = 1 ] || change "$changes"
}

changes_of() { # NUMBER right|wrong N
    awk -v wanted="$3" -v file="$(files_of "$1" | head -n 1)" '
        /^answer/ { n++; next }
        n != wanted { next }
        /^file / { file = "" }
        /^in / && file { print "file " file; file = "" }
        { print }' "tests/exercises/$2/$1"
}

change() { # CHANGES: makes them in $mine
    local file
    while IFS= read -r file; do
        [ -e "$mine/${file##*/}" ] || cp "$file" "$mine"
        awk -v task="$1" -v file="$file" -f exercises/replace.awk "$mine/${file##*/}" >"$mine/new"
        mv "$mine/new" "$mine/${file##*/}"
    done < <(sed -n 's/^file //p' "$1")
}

# An exercise fails without a solution in the way that its README announces.
fail_unsolved() { # NUMBER
    local promise
    promise=$(promise_of "$1")
    [ -n "$promise" ] || { echo "the README of $1 does not say what comes first" && return 1; }
    rm -f "$mine"/*
    exercises/run.sh cut "$1" "$mine"
    checked "$1" 1 "$promise"
    if grep -q 'It prints:' "$mine/said"; then # these are lines that an attendee adds
        cat "$mine/said"
        return 1
    fi
}

# without_programs: sets BUILD to a build folder with objects, but without programs, as in a fresh clone.
without_programs() {
    BUILD=build/${mine##*/}
    rm -rf "$BUILD"
    mkdir "$BUILD"
    (cd build/test && find . \( -path ./exercises -o -path ./build \) -prune -o -type f ! -executable -print0 |
        xargs -0 cp -l --parents -t "$root/$BUILD")
}

# checked_without_programs NUMBER: the check makes each program that it runs, and accepts what lies in $mine.
checked_without_programs() {
    local BUILD
    without_programs
    checked "$1" 0
}

# Each exercise fails without a solution, and passes with the step's text.
fail_unsolved_and_pass_solved() { # NUMBER...
    local number
    for number; do
        fail_unsolved "$number"
        answer "$number"
        checked_without_programs "$number"
    done
}

# The check ends with CODE for each answer in the file, and prints its line. make test-nightly tries all wrong answers. Other
# runs try the first one, and only make the others from the step.
try_answers() { # NUMBER right|wrong CODE
    local text count=0
    while IFS= read -r text; do
        count=$((count + 1))
        answer "$1" "$2" "$count"
        [ "$2" = right ] || [ "$count" -le "${WRONG_ANSWERS:-1}" ] || continue
        checked "$1" "$3" "$(with_texts "$text")"
    done < <(sed -n 's/^answer *//p' "tests/exercises/$2/$1")
    [ $count -gt 0 ]
}

# Each wrong answer is refused with its line.
refuse_wrong_answers() { # STEP
    local number
    for number in $(exercises "$1"); do
        try_answers "$number" wrong 1
    done
}

# Right answers in other styles than the step's are accepted. Most faults have none.
accept_right_answers() { # STEP
    local number
    for number in $(exercises "$1"); do
        [ ! -e "tests/exercises/right/$number" ] || try_answers "$number" right 0
    done
}

# mutants.py makes wrong answers from the right one; make test-nightly tries them.
refuse_mutants() { # STEP
    local number status=0
    for number in $([ -z "${WRONG_ANSWERS:-}" ] || exercises "$1"); do
        tests/exercises/mutants.py "$number" || status=1
    done
    return $status
}
