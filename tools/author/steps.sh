#!/bin/bash
# steps.sh: prints the table of steps in README.md: the idea of each step, and the minutes for a first and a second reading, its
# exercises and its faults of the debugging lab. steps.sh N prints the faults of step N for the step's README. Both come from
# the texts of the steps and exercises, so tools/author/render.py keeps them up to date.
set -eu
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
shopt -s nullglob # a new step has no exercises yet
cd "$(dirname "$(readlink -f "$0")")/../.."

minutes() { # FOLDER...: the sum of their minutes
    local folder sum=0 found
    for folder in "$@"; do
        found=$(sed -n 's/^\*\*Time:\*\* \([0-9]*\) minutes.*/\1/p' "$folder/README.md")
        sum=$((sum + found))
    done
    echo $sum
}

faults() { # STEP: the folders of its faults
    grep -lE "^program 0$1_" exercises/debug/*/task | xargs -r dirname | sort -V
}

reading() { # README WORDS: the minutes of its list of files that begins so
    sed -n "s/^\*\*$2\*\*, .*about \([0-9]*\) minutes.*/\1/p" "$1"
}

table() {
    local folder n all=(0 0 0 0) sums
    echo '| step | the one idea | to read | second reading | exercises | debugging lab |'
    echo '|---|---|---|---|---|---|'
    for folder in 0*_*; do
        n=${folder:1:1}
        sums=("$(reading "$folder/README.md" 'To read')" "$(reading "$folder/README.md" 'At a second reading')"
            "$(minutes exercises/"$n".*-*)")
        # shellcheck disable=SC2046 # several folders
        sums+=("$(minutes $(faults "$n"))")
        printf '| [%s](%s/README.md) | %s | %d min | %d min | %d min | %d min |\n' \
            "$(sed -n '1s/^# Step //p' "$folder/README.md")" "$folder" \
            "$(sed -n 's/^\*\*The one idea:\*\* \(.*\)\.$/\1/p' "$folder/README.md")" "${sums[@]}" | sed ':again; s/| 0 min |/| |/; t again'
        for i in "${!all[@]}"; do all[i]=$((all[i] + sums[i])); done
    done
    for i in "${!all[@]}"; do all[i]="$((all[i] / 60)) h $((all[i] % 60)) min"; done
    printf '| all | |' && printf ' %s |' "${all[@]}" && echo
}

lab() { # STEP
    local folder number names='' lab
    mapfile -t lab < <(faults "$1")
    for folder in "${lab[@]}"; do
        number=${folder##*/} names="$names, debug.${number%%-*}"
    done
    printf 'Find the mistakes in the [debugging lab](../exercises/README.md#the-debugging-lab): %s (%s min)\n' "${names#, }" \
        "$(minutes "${lab[@]}")" | fold -s -w 118 | sed 's/ *$//'
}

case $# in
0) table ;;
*) lab "$1" ;;
esac
