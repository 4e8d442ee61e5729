#!/bin/sh
# diff_steps.sh A B: shows the changes from the train.c of step A to that of step B, with a line before and after each. ALL=1
# shows the includes, too, and the whole functions, structs and tables that change, and F=join that function only (F=trainer:
# the struct, F=options: the table of options). On a terminal, a pager marks each word: removed words are
# red and struck through, new words are bold and green. In a pipe, or if NO_COLOR is set, the output is a plain diff. The
# script looks for the steps in the current folder.
set -u

train_of() { # STEP: the path of its train.c
    for file in 0"$1"_*/train.c; do
        [ -f "$file" ] && echo "$file" && return
    done
    echo "error: step $1 has no train.c here (looked for 0$1_*/train.c)" >&2
    exit 2
}

[ $# = 2 ] || {
    echo "usage: [F=function|ALL=1] tools/diff_steps.sh A B, such as tools/diff_steps.sh 1 2" >&2
    exit 2
}
command -v git >/dev/null || {
    echo "error: git is not installed, but make needs it to show differences (even outside a git checkout)" >&2
    exit 1
}
old=$(train_of "$1") && new=$(train_of "$2") || exit

# The script writes the two versions to compare to a temporary folder, under the same names.
# shellcheck source=tools/begin.sh
. "$(dirname "$0")/begin.sh"
mkdir "$work/${old%/*}" "$work/${new%/*}" || exit

# Prints the top-level definition of that name, with the comment above it, and its line number to standard error.
# shellcheck disable=SC2016 # the dollars are those of awk
only_one='
# Returns the name that a line defines: f of int f(void), s of struct s {, options of options[] = {.
function name_of(line) { sub(/ *[[({=].*/, "", line); sub(/.*[^A-Za-z0-9_]/, "", line); return line }
!inside && /^[a-z]/ && !/;$/ && name_of($0) == name {
    inside = 1
    printf "%s", comment
    print NR - split(comment, lines, "\n") + (comment != "") >"/dev/stderr"
}
inside { print }
/^}/ { inside = 0 }
{ comment = /^\/\// ? comment $0 "\n" : "" }'

# Prints the first file with the includes of the second file, so that these do not differ.
# shellcheck disable=SC2016
alike='
/^#include/ { if (FILENAME == ARGV[1]) text = text $0 "\n"; else { printf "%s", text; text = "" } }
!/^#include/ && FILENAME != ARGV[1] { print }'

context=1 whole=--no-function-context line='\1' above=''
if [ -n "${F:-}" ]; then
    context=10000 above='.*'
    awk -v name="$F" "$only_one" "$old" >"$work/$old" 2>/dev/null
    line=$(awk -v name="$F" "$only_one" "$new" 2>&1 >"$work/$new" | head -n 1)
    [ -s "$work/$old" ] || [ -s "$work/$new" ] || {
        echo "error: neither $old nor $new has a function, struct or table called $F" >&2
        exit 2
    }
elif [ -n "${ALL:-}" ]; then
    context=0 whole=--function-context above='.*'
    cp "$old" "$work/$old" && cp "$new" "$work/$new" || exit
else
    awk "$alike" "$new" "$old" >"$work/$old" && cp "$new" "$work/$new" || exit
fi

# A word is a token of C or a whole comment: two versions of a comment are easier to read one after the other.
words='//.*|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|[-+*/%&|^=!<>]+|[^[:space:]]'
pager='cat'
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${NO_COLOR:-}" ]; then
    set -- "--color-words=$words" --color=always
    pager=$(git var GIT_PAGER)
else
    set -- --color=never
fi
# These options replace settings of the user that would spoil the output.
(cd "$work" && git -c color.diff.old='red strike' -c color.diff.new='green bold' -c diff.colorMoved=no \
    diff --no-index --no-ext-diff --no-textconv --text --no-prefix \
    --diff-algorithm=minimal --indent-heuristic "--unified=$context" --inter-hunk-context=0 $whole \
    "$@" "$old" "$new") |
    # Replaces the two ranges of lines of each part by its file and line in the later step. Git puts the name of the
    # function above the part behind them; a part that is a whole function does not need it.
    sed -E "/^(.\[[0-9;]*m)*(diff|index|---|\+\+\+) /d; s|@@ -[0-9,]+ \+([0-9]+)(,[0-9]+)? @@(.\[m)?$above|@@ $new:$line @@\3|" |
    awk -v all="${F:-}${ALL:-}" '
        { print }
        END { if (NR && all == "") print "ALL=1 shows whole functions and the includes, and F=backward one function." }' |
    LESS=${LESS-FRX} sh -c "$pager"
