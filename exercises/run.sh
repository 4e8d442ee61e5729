#!/usr/bin/env bash
# run.sh COMMAND [NUMBER]: make calls it for the exercises. The commands are list, start, check, hint and solution. The tests
# also use these: cut NUMBER FOLDER puts the sources without the solution into a folder, try NUMBER FOLDER checks the
# sources in a folder, and folder NUMBER prints the folder of an exercise. A number is one such as 2.1, or debug.3 for a
# fault. Attendees write in work/2.1, which git ignores. No command overwrites or removes what they wrote.
set -u
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
cd "$(dirname "$(readlink -f "$0")")/.." || exit 1
unset MAKEFLAGS MFLAGS MAKELEVEL

fail() {
    printf 'error: %s\n' "$*" >&2
    exit 1
}

# Every exercise, in the order of the course.
folders() {
    printf '%s\n' exercises/[0-9]*.*-*/ exercises/debug/[0-9]*-*/ | grep -v '\*' | sed 's|/$||' | sort -V
}

number_of() { # FOLDER: 2.1, or debug.1
    local name=${1##*/}
    [[ $1 != */debug/* ]] || name=debug.$name
    echo "${name%%-*}"
}

folder_of() { # NUMBER
    local found=(exercises/"$1"-*/)
    [[ $1 != debug.* ]] || found=(exercises/debug/"${1#debug.}"-*/)
    [ -d "${found[0]}" ] || fail "there is no exercise $1; make exercises lists them"
    echo "${found[0]%/}"
}

title_of() { sed -n '1s/^# *[0-9a-z.]* *//p' "$1/README.md"; }
minutes_of() { sed -n 's/^\*\*Time:\*\* \([0-9]*\) minutes.*/\1/p' "$1/README.md"; }

state_of() { # NUMBER
    if [ -e "work/$1/.solved" ]; then echo solved; elif [ -d "work/$1" ]; then echo started; else echo -; fi
}

# The sources that a task changes.
files_of() { # FOLDER
    sed -n 's/^file //p' "$1/task"
}

# Puts the sources of an exercise, without its solution, into a folder.
cut_out() { # FOLDER TARGET
    local file
    for file in $(files_of "$1"); do
        awk -v task="$1/task" -v file="$file" -f exercises/replace.awk "$file" >"$2/${file##*/}" || return
    done
}

list() {
    local folder number
    printf '%-9s %-8s %3s  %s\n' exercise state min title
    for folder in $(folders); do
        number=$(number_of "$folder")
        printf '%-9s %-8s %3s  %s\n' "$number" "$(state_of "$number")" "$(minutes_of "$folder")" "$(title_of "$folder")"
    done
    echo
    echo 'make exercise starts the next one, make exercise EX=2.1 starts exercise 2.1.'
}

# The exercise that was started last, if it is not solved. Otherwise the next one that is not solved, or the first one.
next_open() {
    local folder number current first='' behind=''
    current=$(cat work/.current 2>/dev/null)
    for folder in $(folders); do
        number=$(number_of "$folder")
        [ "$number" != "$current" ] || behind=1
        [ "$(state_of "$number")" != solved ] || continue
        [ -z "$behind" ] || { echo "$number" && return; }
        first=${first:-$number}
    done
    echo "$first"
}

start() { # [NUMBER]
    local number=${1:-$(next_open)} folder new file
    [ -n "$number" ] || { echo 'You have solved every exercise.' && return; }
    folder=$(folder_of "$number") || exit
    if [ -d "work/$number" ]; then
        chosen "$number" >/dev/null
        echo "You have started this exercise before. What you wrote is unchanged."
        echo
    else
        mkdir -p work && new=$(mktemp -d work/.new.XXXXXX) || exit
        if ! { cut_out "$folder" "$new" && chmod 755 "$new" && mv -T "$new" "work/$number"; }; then
            rm -rf "$new"
            exit 1
        fi
    fi
    echo "$number" >work/.current
    sed '/^<details>/,$d' "$folder/README.md"
    for file in $(files_of "$folder"); do
        echo "Your file: work/$number/${file##*/}"
    done
    echo 'Then: make check (or make hint)'
}

# The sources of an exercise are there. Without one, the program would have that of the step, and be right.
has_sources() { # NUMBER [FOLDER]
    local file mine=${2:-work/$1}
    for file in $(files_of "$(folder_of "$1")"); do
        [ -e "$mine/${file##*/}" ] && continue
        echo "error: $mine/${file##*/} is not there; to begin again, rename the folder $mine and run make exercise EX=$1" >&2
        return 1
    done
}

chosen() { # [NUMBER]: it, or the exercise that was started last
    local number=${1:-$(cat work/.current 2>/dev/null)}
    [ -n "$number" ] || fail 'no exercise has been started; make exercise starts one'
    folder_of "$number" >/dev/null || exit
    [ -d "work/$number" ] || fail "exercise $number has not been started; make exercise EX=$number starts it"
    has_sources "$number" || exit
    echo "$number" >work/.current
    echo "$number"
}

# The check of an exercise runs in a folder of its own, with the folder of what is to be checked in $mine.
check_one() { # NUMBER [FOLDER]: 0 if it is solved
    local folder status
    folder=$(folder_of "$1") || return
    has_sources "$@" || return
    mkdir "$work/$1"
    EXERCISE=$1 TASK=$PWD/$folder/task MINE=${2:-work/$1} COURSE=$PWD SCRATCH=$work/$1 \
        bash exercises/check.bash "$folder/check"
    status=$?
    rm -rf "${work:?}/$1"
    return $status
}

# Of all exercises: a line that an instructor can collect.
check_all() {
    local folder number solved=0 count=0
    for folder in $(folders); do
        number=$(number_of "$folder")
        count=$((count + 1))
        if [ "$(state_of "$number")" = started ] && check_one "$number" >/dev/null; then
            touch "work/$number/.solved"
        fi
        [ "$(state_of "$number")" != solved ] || solved=$((solved + 1))
    done
    echo "$(id -un)@$(uname -n): $solved of $count exercises are solved"
}

check_and_say() { # NUMBER
    local next status=0
    echo "Exercise $1, work/$1:"
    check_one "$1" || status=$?
    if [ $status != 0 ]; then
        [ $status != 1 ] || printf '\nExercise %s is not solved yet. make hint shows a hint.\n' "$1"
        return $status
    fi
    touch "work/$1/.solved"
    next=$(next_open)
    printf '\nExercise %s is solved. make solution compares your code with the step. ' "$1"
    if [ -n "$next" ]; then
        echo "make exercise starts exercise $next."
    else
        echo 'That was the last exercise.'
    fi
}

# Runs the check in a job, waits for it, and prints what it printed.
submit() { # NUMBER
    local status=0 said="work/$1/check.out"
    command -v sbatch >/dev/null || fail 'SBATCH=1 needs Slurm, and there is no sbatch here; run make check without SBATCH=1'
    echo "Exercise $1 is checked in a job; squeue --me shows it."
    env -u SBATCH sbatch --quiet --wait --output="$said" slurm/check.sbatch "$1" || status=$?
    cat "$said"
    return $status
}

check() { # [NUMBER]
    local number
    [ -z "${ALL:-}" ] || { check_all && return; }
    number=$(chosen "${1:-}") || exit
    if [ -n "${SBATCH:-}" ]; then
        submit "$number"
    else
        check_and_say "$number"
    fi
}

# Shows one hint more each time.
hint() { # [NUMBER]
    local number shown
    number=$(chosen "${1:-}") || exit
    shown=$(($(cat "work/$number/.hints" 2>/dev/null || echo 0) + 1))
    awk -v shown=$shown 'FNR == NR { all += /<summary>/; next }
        /<summary>/ && ++n == shown { sub(/<\/summary>/, " of " all) }
        n == shown && NF { gsub(/<[\/!a-z][^>]*>/, ""); if (NF) print; found = 1 }
        END { exit !found }' "$(folder_of "$number")/README.md" "$(folder_of "$number")/README.md" ||
        { echo 'There are no more hints: make solution shows the code of the step, and make hint the first hint again.' && shown=0; }
    echo $shown >"work/$number/.hints"
}

solution() { # [NUMBER]
    local number file answer
    number=$(chosen "${1:-}") || exit
    if [ "$(state_of "$number")" != solved ] && [ -z "${YES:-}" ]; then
        printf '%s' "Exercise $number is not solved yet. Show the solution? [y/N] "
        read -r answer || echo
        [[ ${answer:-} == [yY]* ]] || return 0
    fi
    for file in $(files_of "$(folder_of "$number")"); do
        git --no-pager diff --no-index --color=auto "work/$number/${file##*/}" "$file" && echo "$file: your code is the step's"
    done
    return 0
}

command=${1:-list}
[[ $command != @(check|try) ]] || . tools/begin.sh
case $command in
list | start | check | hint | solution) "$command" "${2:-}" ;;
cut) cut_out "$(folder_of "$2")" "$3" ;;
try) check_one "$2" "$3" ;;
folder) folder_of "$2" ;;
*) fail "run.sh $command: want list, start, check, hint or solution" ;;
esac
