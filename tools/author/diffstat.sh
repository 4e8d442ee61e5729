#!/bin/bash
# diffstat.sh: counts the lines that each step changes in the train.c of the step that it extends. This is the previous step,
# unless budgets has a row with an earlier one. It prints a row for each step in the current folder, as git diff --minimal
# counts the lines. It exits with 1, and prints file, line and text, if a pair exceeds its budget, or if a change makes readers
# look at lines for nothing:
#   comment      A hunk removes comments, but no code.
#   moved        A line with more than 10 characters besides blanks is removed in one place and added in another.
# Lines that are only indented count, but are no fault: clang-format indents them below a new condition or loop. The first
# comment of a file explains its step, so it may change. tools/author/reading.sh counts the lines of the other files.
set -u
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2

# steps, lines to add, lines to remove: a tenth above what the course needs, so that nobody squeezes a line to fit.
budgets='1-2 133 24
2-3  25 20
3-4  33 25
4-5  47  88
5-7 150  50
4-8 155  88
8-9  39  10'

differences() { # OPTION... OLD NEW
    git diff --no-index --no-ext-diff --no-textconv --text --no-color --diff-algorithm=minimal --indent-heuristic \
        --unified=0 --inter-hunk-context=0 "$@"
    [ $? -le 1 ] || exit 1 # git has printed the reason
}

# shellcheck disable=SC2016 # the dollars are those of awk
faults='
function complain(n, what, text) { print "error: " path ":" n ": " what ": " text; found = 1 }
function end_hunk() {
    if (comments && !code && hunk > opening) complain(hunk, "comment removed or reworded", comment)
    comments = code = 0
}
function letters(line) { sub(/^./, "", line); gsub(/[ \t]/, "", line); return line }
NR == FNR { if (!ended && /^\/\//) opening = FNR; else ended = 1; next }
/^@@ / { end_hunk(); split($2, from, /[-,]/); hunk = line = from[2]; next }
!hunk { next }
/^-/ {
    if (letters($0) ~ /^\/\//) { comments++; comment = substr($0, 2) } else code++
    if (length(letters($0)) > 10) removed[line] = letters($0)
    line++
}
/^\+/ { added[letters($0)] }
END {
    end_hunk()
    for (n in removed) if (n + 0 > opening && removed[n] in added) moved[n]
    for (n in moved) complain(n, "moved", removed[n])
    exit found
}'

command -v git >/dev/null || {
    echo "error: git is not installed, but make needs it to count differences (even outside a git checkout)" >&2
    exit 1
}
echo 'steps  added  removed  hunks   budget'
failed=0 previous=''
for new in 0[1-9]_*/train.c; do
    base=$(sed -n "s/^\([1-9]\)-${new:1:1} .*/\1/p" <<<"$budgets")
    old=$(compgen -G "0${base:-none}_*/train.c" || echo "$previous") previous=$new
    [ -n "$old" ] || continue
    pair=${old:1:1}-${new:1:1}
    read -r _ most_added most_removed <<<"$(grep "^$pair " <<<"$budgets")"
    read -r added removed hunks <<<"$(differences "$old" "$new" |
        awk '/^@@ /{ hunks++ } !hunks { next } /^\+/ { added++ } /^-/ { removed++ } END { print added + 0, removed + 0, hunks + 0 }')"
    printf '%-5s %6d %8d %6d %8s\n' "$pair" "$added" "$removed" "$hunks" "${most_added:-none}/${most_removed:-none}"
    if [ "$added" -gt "${most_added:-0}" ] || [ "$removed" -gt "${most_removed:-0}" ]; then
        echo "error: $new: $added lines added and $removed removed, beyond the budget of ${most_added:-none} and ${most_removed:-none}" >&2
        failed=1
    fi
    differences -w "$old" "$new" | awk -v path="$old" "$faults" "$old" - >&2 || failed=1
done
exit $failed
