#!/usr/bin/env bats
# Tests of tools/author/spread.sh, which makes a change of one step in the steps that extend it. They change a copy of the steps.
load ../helpers

setup() {
    command -v patch >/dev/null || skip "patch is not installed"
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    git init -q . && git add 0*/train.c
    git -c user.name=test -c user.email=test@localhost commit -qm "the steps"
    all=(0[2-9]*/train.c)
}

# lines: the changed lines of all steps, each with the number of its files
changed_lines() {
    git diff --no-ext-diff --no-color -U0 | grep -E '^[-+]([^-+]|$)' | sort | uniq -c | awk '{ print $1 $2 }'
}

@test "spread.sh makes a change of step 1 in all later steps, where these have other lines around it, too" {
    edit 01_*/train.c 's/(resumed) < 0/\1 == -1/'
    [ "$(tools/author/spread.sh 1)" = "$(printf '%s\n' "${all[@]}")" ]
    [ "$(grep -l 'if (t->resumed == -1)' 0*/train.c | wc -l)" = $((1 + ${#all[@]})) ]
    [ "$(changed_lines)" = "$(printf '%d%s\n' $((1 + ${#all[@]})) + $((1 + ${#all[@]})) -)" ]
}

@test "spread.sh names a step that has other lines in this place, and leaves it alone" {
    edit 05_*/train.c 's/fsdp_gather\(&t->fsdp, i, i \+ 1\)/fsdp_gather(\&t->fsdp, i, i + 2)/'
    fails 1 "07_large_models/train.c has other lines in the place of a change" tools/author/spread.sh 5
    git diff --quiet -- 07*
}
