#!/bin/bash
# steps.sh: prints the table of steps in README.md: the idea of each step, and the minutes for its text, its exercises and
# its faults of the debugging lab. steps.sh N prints the exercises of step N for the step's README. Both come from the texts
# of the steps and exercises, so tools/author/render.py keeps them up to date.
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

table() {
    local folder n reading all=(0 0 0) sums
    echo '| step | the one idea | to read | exercises | debugging lab |'
    echo '|---|---|---|---|---|'
    for folder in 0*_*; do
        n=${folder:1:1}
        reading=$(sed -n 's/^\*\*To read\*\*, in this order, about \([0-9]*\) minutes.*/\1/p' "$folder/README.md")
        # shellcheck disable=SC2046 # several folders
        sums=("$reading" "$(minutes exercises/"$n".*-*)" "$(minutes $(faults "$n"))")
        printf '| [%s](%s/README.md) | %s | %s min | %s min | %s min |\n' \
            "$(sed -n '1s/^# Step //p' "$folder/README.md")" "$folder" \
            "$(sed -n 's/^\*\*The one idea:\*\* \(.*\)\.$/\1/p' "$folder/README.md")" "${sums[@]}" | sed ':again; s/| 0 min |/| |/; t again'
        for i in 0 1 2; do all[i]=$((all[i] + sums[i])); done
    done
    printf '| all | | %d h %d min | %d h %d min | %d h %d min |\n' $((all[0] / 60)) $((all[0] % 60)) \
        $((all[1] / 60)) $((all[1] % 60)) $((all[2] / 60)) $((all[2] % 60))
}

exercises() { # STEP
    local folder number names='' lab=()
    # shellcheck disable=SC2016 # backticks of Markdown
    printf '`make exercise EX=%s.1` starts exercise %s.1, and `make check` tests your code (%s):\n\n' "$1" "$1" \
        '[more](../exercises/README.md)'
    for folder in $(printf '%s\n' exercises/"$1".*-* | sort -V); do
        printf -- '- [%s](../%s/README.md) (%s min)\n' "$(sed -n '1s/^# //p' "$folder/README.md")" "$folder" "$(minutes "$folder")"
    done
    mapfile -t lab < <(faults "$1")
    [ ${#lab[@]} -gt 0 ] || return 0
    for folder in "${lab[@]}"; do
        number=${folder##*/} names="$names, debug.${number%%-*}"
    done
    printf -- '- in the [debugging lab](../exercises/README.md#the-debugging-lab): %s (%s min)\n' \
        "${names#, }" "$(minutes "${lab[@]}")" | fold -s -w 118 | sed 's/ *$//; 2,$s/^/  /'
}

case $# in
0) table ;;
*) exercises "$1" ;;
esac
