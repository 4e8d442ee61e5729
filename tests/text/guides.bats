#!/usr/bin/env bats
# Tests of docs/instructor.md and docs/attendee.md: the messages that the guides explain exist.
# shellcheck disable=SC2016,SC2154 # Markdown's backticks; helpers.bash sets root
load ../helpers

setup() {
    cd "$root" || return
    guide=docs/instructor.md
}

# Prints the first column of the tables with these columns, without their code signs.
explained() { # FILE HEADER
    awk -v header="| $2 |" 'index($0, header) == 1 { inside = 1; next } !/^\|/ { inside = 0 } inside' "$1" |
        grep -oE '^\| `[^`]*`' | sed 's/^| `//; s/`$//'
}

@test "every message that the guides explain exists" {
    local message count=0 text
    text=$(cat 0*/*.c common/*/*.c tools/*.sh exercises/*.{sh,bash} Makefile | sed 's/%[.0-9*]*l\{0,1\}[a-z]/@/g')
    while IFS= read -r message; do
        count=$((count + 1))
        case $message in
        FAIL* | WARN*) # say WARN 'host name', or a function that says what the check has found
            grep -qE "say .*${message##*  }" tools/doctor.sh ;;
        *) # without the values, such as numbers
            grep -qF -- "$(sed -E 's/exercise [0-9.]+ has/exercise $number has/; s/^cc /$cc /' \
                <<<"$message")" <<<"$text" ;;
        esac || { echo "no program prints: $message" && return 1; }
    done < <(explained "$guide" 'what attendees see' && explained docs/attendee.md 'line')
    [ $count -gt 0 ]
}
