#!/bin/sh
# spread.sh N: makes the changes of step N's train.c since the last commit in the train.c of all steps that extend it, too.
# The first comment of a train.c is its own, so it stays. A step that has other lines in the place of a change is not
# touched, but named. See the result with git diff.
set -u

changed=$(ls 0"${1:-}"_*/train.c 2>/dev/null) || {
    echo "usage: tools/author/spread.sh STEP, such as tools/author/spread.sh 1, in the root of the repository" >&2
    exit 2
}
command -v patch >/dev/null || {
    echo "error: patch is not installed: install the package patch" >&2
    exit 1
}
# shellcheck source=tools/begin.sh
. "$(dirname "$0")/../begin.sh"
git show "HEAD:./$changed" >"$work/committed" || exit # git has printed the reason
body_of() { sed -n '/^#include/,$p' "$1"; }
body_of "$work/committed" >"$work/old"
body_of "$changed" >"$work/new"
! cmp -s "$work/old" "$work/new" || {
    echo "error: $changed has not changed since the last commit" >&2
    exit 1
}
diff -U3 "$work/old" "$work/new" >"$work/changes"
# A changed line is found by itself where a later step has other lines around it. An added line needs those around it.
fuzz=3
! diff -U0 "$work/old" "$work/new" | grep -q '^@@ -[0-9]*,0 ' || fuzz=2

failed=0 reached=" $1 "
for file in 0*/train.c; do
    step=$(echo "$file" | cut -c 2)
    base=$(sed -n "s|^// Step $step extends step \([0-9]\).*|\1|p" "$file")
    case $reached in *" ${base:-none} "*) ;; *) continue ;; esac
    reached="$reached$step "
    sed '/^#include/,$d' "$file" >"$work/head"
    body_of "$file" >"$work/body"
    if patch --quiet --force --fuzz=$fuzz --reject-file=- "$work/body" "$work/changes" >"$work/said" 2>&1; then
        cat "$work/head" "$work/body" >"$file"
        echo "$file"
    else
        echo "error: $file has other lines in the place of a change: make it by hand" >&2
        failed=1
    fi
done
exit $failed
