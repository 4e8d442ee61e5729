#!/bin/sh
# diff_steps.sh A B: what step B changes in the train.c of step A, with whole functions. On a terminal word
# by word in a pager: what is gone is red and struck through, what is new is bold and green. Elsewhere, as
# in a pipe, or where NO_COLOR is set, as a plain diff. Looks for the steps in the current folder.
set -u

train_of() { # STEP: the path of its train.c
    for file in 0"$1"_*/train.c; do
        [ -f "$file" ] && echo "$file" && return
    done
    echo "error: step $1 has no train.c here (looked for 0$1_*/train.c)" >&2
    exit 2
}

[ $# = 2 ] || {
    echo "usage: tools/diff_steps.sh A B, such as tools/diff_steps.sh 1 2" >&2
    exit 2
}
command -v git >/dev/null || {
    echo "error: git is not installed, and shows the differences (the folder need not be a git checkout)" >&2
    exit 1
}
old=$(train_of "$1") && new=$(train_of "$2") || exit

# The words of C, where a comment counts as one: changed prose is easier to read whole than interleaved.
words='//.*|[A-Za-z_][A-Za-z0-9_]*|[0-9][A-Za-z0-9_.]*|[-+*/%&|^=!<>]+|[^[:space:]]'
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${NO_COLOR:-}" ]; then
    set -- "--color-words=$words"
else
    set -- --color=never
fi
# All that the settings of a user could change for the worse is set here.
git -c color.diff.old='red strike' -c color.diff.new='green bold' -c diff.colorMoved=no \
    diff --no-index --no-ext-diff --no-textconv --text --no-prefix \
    --diff-algorithm=minimal --indent-heuristic --unified=0 --inter-hunk-context=0 --function-context \
    "$@" "$old" "$new"
status=$?
# 1: they differ; 141: the pager was left early.
[ $status -le 1 ] || [ $status = 141 ] || exit $status
