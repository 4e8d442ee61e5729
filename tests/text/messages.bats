#!/usr/bin/env bats
# Tests of exercises/messages.h, the messages that checks, tests and texts call by a name.
load ../helpers

# A message may be broken into several strings of a source.
source_strings() {
    (cd "$root" && cat 0*/{*,*/*}.c {common/*,zoo,zoo/*,watch}/*.c cpu_device/src/*.c) | tr '\n' ' ' | sed 's/" *"//g'
}

# lines TEXT...: prints the lines of checks, tests and answers that contain one of these texts, each after FILE:NUMBER:.
lines() {
    (
        cd "$root" || return
        grep -rnF --include='*.bats' --include='*.bash' --include='test_*.c' --include=check \
            --exclude={messages.bats,shared.bash} "${@/#/-e}" exercises tests
        grep -rnF "${@/#/-e}" tests/exercises/answers | grep -E ':(right|wrong) '
    )
}

@test "a source prints each message of the table" {
    source_strings >sources
    [ ${#messages[@]} -ge 10 ]
    for name in "${!messages[@]}"; do
        grep -aqF -- "${messages[$name]}" sources ||
            { grep -n "$name" "$root/exercises/messages.h" && echo "no source prints it" && return 1; }
    done
}

@test "checks and tests use the names of the table, and all of them" {
    lines '(text_of ' '{' | grep -oE '[(]text_of [A-Z_]+|[{][A-Z]+_[A-Z_]+[}]' | sed 's/(text_of //; s/[{}]//g' | sort -u >used
    printf '%s\n' "${!messages[@]}" | sort | diff - used
}

@test "no check and no test spells a message that has a name" {
    run lines "${messages[@]}"
    [ -z "$output" ] || { echo "$output" && return 1; }
}

# A new wording would otherwise leave the old one in the notes of a slide, which make docs cannot fill.
@test "a text quotes a message that has a name only where make docs fills it" {
    cd "$root" || return
    run awk -v named="$(printf '|%s' "${messages[@]}")" '
        FNR == 1 { inside = 0 }
        /^ *```/ { inside = !inside }
        !inside && !/<!-- = message[(]/ && tolower($0) ~ "[\"`](" substr(named, 2) ")" { print FILENAME ":" FNR ": " $0 }' \
        README.md 0*/README.md docs/{,slides/}*.md exercises/{,[0-9]*/,debug/*/}README.md
    [ -z "$output" ] || { echo "$output" && return 1; }
}
