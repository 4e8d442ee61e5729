#!/usr/bin/env bats
# Tests of tests/style.sh, which prints notes: it finds planted faults in a copy of the tree, and always ends with 0.
# shellcheck disable=SC2154 # helpers.bash and bats set variables
load ../helpers

@test "make style notes what has grown apart, and ends with 0" {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree" || return
    seq -f '// %g' 300 >>common/data/data.c
    sed -i 's/^    show/     show/; s/^}/&\n/' 02_multigpu_fork/train.c
    edit 02_multigpu_fork/README.md 's/^## Run it/## What it prints/' 's/^!\[//' 's/^\*\*The one idea.*/Several train./'
    printf '| %s | %s |\n' "$(yes a | head -n 90 | tr -d '\n')" "$(yes b | head -n 91 | tr -d '\n')" >docs/table.md
    edit docs/glossary.md 's/^- \*\*kernel\*\*/- **Zkernel**/'
    edit docs/instructor.md 's/(Read step 1 \|) [0-9]+/\1 99/' 's/(Exercises 2.1, 2.2 \|) [0-9]+/\1 21/' 's/(Lunch \|) 60/\1 61/'
    edit exercises/2.1-*/README.md 's/^(\*\*Time:\*\*) .*/\1 90 minutes/'
    run tests/style.sh
    [ "$status" = 0 ]
    while IFS= read -r wanted; do
        grep -q "^note: $wanted" <<<"$output" || { printf '%s\n' "wanted: $wanted" "$output" && return 1; }
    done <<'END'
common/data/data.c: [0-9]* lines, more than
02_multigpu_fork/train.c:.* white space only
02_multigpu_fork/README.md: other sections than
02_multigpu_fork/README.md: no picture before
02_multigpu_fork/README.md: no idea in line 3
./docs/table.md:1: a cell of 91 characters: b
docs/glossary.md: not in order: 
docs/instructor.md: .*Read step 1 takes [0-9]* minutes, not 99
docs/instructor.md: .*Exercises 2.1, 2.2 take [0-9]* minutes, not 21
docs/instructor.md: .*the parts take
exercise 2.1: minutes: 90, not 5 to 20
END
}
