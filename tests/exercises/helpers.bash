# What the tests of the exercises share. A file in answers/ holds answers to an exercise. A line "right TEXT" or "wrong TEXT"
# begins one, and below it are the changes to the step that make it, as in the task of an exercise. A single change of words
# may follow in the same line, after " | ". TEXT is a part of what the check must print; a right answer may have none. The
# changes are those of the first source of the exercise, if no line "file" names another one. mutants.py reads the lines
# "equal".
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
    export CHAOS=1 # one seed of random delays, where an attendee's check takes three
    mine=build/test/exercises/$(basename "$BATS_TEST_FILENAME" .bats)${PART:+.${PART%/*}}
    mkdir -p "$mine"
}

teardown() {
    rm -rf "$mine" "build/test/$mine" "build/${mine##*/}"
}

# The numbers of this part of the file: with PART=2/6 the second, the eighth and so on (see add_bats in run.sh).
exercises() {
    local part=${PART:-1/1}
    printf '%s\n' exercises/[0-9]* exercises/debug/* | sed 's|exercises/||; s|debug/|debug.|; s/-.*//' | sort -V |
        awk -v part="${part%/*}" -v parts="${part#*/}" '(NR - part) % parts == 0'
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
    sed -n 's/^\*\*First you see:\*\* `\(.*\)`$/\1/p' "$(folder_of "$1")/README.md"
}

# answer NUMBER [right|wrong N]: puts the step's text into $mine, or answer N of this kind.
answer() {
    local file changes=$BATS_TEST_TMPDIR/changes
    rm -f "$mine"/*
    for file in $(files_of "$1"); do
        cp "$file" "$mine"
    done
    [ $# != 1 ] || return 0
    changes_of "$@" >"$changes"
    while IFS= read -r file; do
        [ -e "$mine/${file##*/}" ] || cp "$file" "$mine"
        awk -v task="$changes" -v file="$file" -f exercises/replace.awk "$mine/${file##*/}" >"$mine/new"
        mv "$mine/new" "$mine/${file##*/}"
    done < <(sed -n 's/^file //p' "$changes")
}

changes_of() { # NUMBER right|wrong N
    awk -v kind="$2" -v wanted="$3" -v file="$(files_of "$1" | head -n 1)" '
        $1 ~ /^(right|wrong|equal)$/ {
            chosen = $1 == kind && ++n == wanted
            if (!index($0, " | in ")) next
            sub(/.* \| in /, "in ")
        }
        !chosen { next }
        /^file / { file = "" }
        /^in / && file { print "file " file; file = "" }
        { print }' "tests/exercises/answers/$1"
}

texts_of() { # NUMBER right|wrong: what the check must print for each of these answers
    sed -nE "/^$2( |\$)/{ s/^$2 *//; s/ \| in .*//; p; }" "tests/exercises/answers/$1"
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

# Each exercise fails without a solution, and passes with the step's text. SEEDS="1 2 3 4 5 6 7 8 9 10" tries more seeds of
# random delays.
fail_unsolved_and_pass_solved() { # NUMBER...
    local number
    local -x CHAOS=${SEEDS:-1}
    for number; do
        fail_unsolved "$number"
        answer "$number"
        checked_without_programs "$number"
    done
}

# The check ends with CODE for each answer of this kind, and prints its text. make test-nightly tries all wrong answers. Other
# runs try the first one, and only make the others from the step.
try_answers() { # right|wrong CODE
    local number text count
    for number in $(exercises); do
        count=0
        while IFS= read -r text; do
            count=$((count + 1))
            answer "$number" "$1" "$count"
            [ "$1" = right ] || [ "$count" -le "${WRONG_ANSWERS:-1}" ] || continue
            checked "$number" "$2" "$(with_texts "$text")"
        done < <(texts_of "$number" "$1")
    done
}
