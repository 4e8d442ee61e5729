#!/usr/bin/env bats
# Tests of docs/instructor.md and docs/attendee.md: the minutes of each schedule add up, those of its parts are those of the
# texts and exercises, and the messages that the guides explain exist.
# shellcheck disable=SC2013,SC2016,SC2154 # one number has no blanks; Markdown's backticks; helpers.bash sets root
load ../helpers

setup() {
    cd "$root" || return
    guide=docs/instructor.md
}

# planned GUIDE: prints what is wrong with the minutes of the schedules.
planned() {
    local line number part minutes sum rows=0 title='' wanted=0
    local -A reading times
    while read -r number minutes; do
        reading[$number]=$minutes
    done < <(sed -n 's/^\*\*To read\*\*, in this order, about \([0-9]*\) minutes.*/\1/p' 0*/README.md | cat -n)
    while read -r number minutes; do
        times[$number]=$minutes
    done < <(exercises/run.sh list | awk '$1 ~ /\./ { print $1, $3 }')
    while IFS= read -r line; do
        if [[ $line =~ ^###\ (.*)$ || $line =~ ^(Day\ [12]):.*minutes ]]; then
            title=${BASH_REMATCH[1]}
            wanted=$(grep -oE '[0-9]+ minutes' <<<"$line" | grep -oE '[0-9]+')
            sum=0
        elif [[ $line =~ ^\|\ (.*)\ \|\ ([0-9]+)\ \|$ ]]; then
            part=${BASH_REMATCH[1]} minutes=${BASH_REMATCH[2]}
            rows=$((rows + 1)) sum=$((sum + minutes))
            if [[ $part =~ ^Read\ step\ ([0-9])$ ]] && [ "$minutes" != "${reading[${BASH_REMATCH[1]}]}" ]; then
                echo "$title: $part takes ${reading[${BASH_REMATCH[1]}]} minutes, not $minutes"
            elif [[ $part =~ ^(Exercises?|Faults?)\  ]]; then
                number=0
                for exercise in $(grep -oE '(debug|[0-9])\.[0-9]+' <<<"$part"); do
                    number=$((number + ${times[$exercise]:--1000}))
                done
                [ $number = "$minutes" ] || echo "$title: $part take $number minutes, not $minutes"
            fi
        elif [[ $line == '' && ${sum:-0} -gt 0 ]]; then
            [ "$sum" = "$wanted" ] || echo "$title: the parts take $sum minutes, not $wanted"
            sum=0
        fi
    done <"$1"
    [ $rows -gt 40 ] || echo "found only $rows parts"
}

@test "the minutes of each schedule add up, and are those of the texts and exercises" {
    run planned "$guide"
    [ -z "$output" ] || { echo "$output" && return 1; }
}

@test "a wrong number of minutes in a schedule is found" {
    finds_in "$guide" planned <<'END'
s/(Read step 1 \|) [0-9]+/\1 31/@Read step 1 takes 30 minutes, not 31
s/(Exercises 2.1, 2.2 \|) [0-9]+/\1 21/@Exercises 2.1, 2.2 take 20 minutes, not 21
s/(Exercises 2.1, 2.2) \|/\1, 2.99 |/@2.99 take
s/(Lunch \|) 60/\1 61/@Day 1: the parts take
END
}

# Prints the first column of the tables with these columns, without their code signs.
explained() { # FILE HEADER
    awk -v header="| $2 |" 'index($0, header) == 1 { inside = 1; next } !/^\|/ { inside = 0 } inside' "$1" |
        grep -oE '^\| `[^`]*`' | sed 's/^| `//; s/`$//'
}

@test "every message that the guides explain exists" {
    local message count=0 text
    text=$(cat 0*/*.c common/*.c tools/*.sh exercises/*.{sh,bash} Makefile | sed 's/%[.0-9*]*l\{0,1\}[a-z]/@/g')
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
    [ $count -gt 13 ]
}
