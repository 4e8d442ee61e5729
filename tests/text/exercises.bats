#!/usr/bin/env bats
# Tests of the texts of the exercises: each is complete and can be made from the steps. tests/exercises runs them.
load ../helpers
begin_in=$root
mapfile -t folders < <(cd "$root" && printf '%s\n' exercises/[0-9]*/ exercises/debug/*/ | sed 's|/$||')

number_of() { # FOLDER
    local name=${1##*/}
    [[ $1 != */debug/* ]] || name=debug.$name
    echo "${name%%-*}"
}

# missing FOLDER: prints what its text lacks.
missing() {
    local text=$1/README.md part parts=('Write' 'It works when' 'First you see')
    [[ $1 != */debug/* ]] || parts=('You see' 'See it' 'Find and mend' 'It works when' 'First you see')
    for part in "${parts[@]}"; do
        grep -q "^\*\*$part:\{0,1\}\*\*" "$text" || echo "no part \"$part\""
    done
    grep -q "^# $(number_of "$1" | sed 's/\./\\./') " "$text" || echo 'another number in the title'
}

@test "each exercise and fault has all parts of its text, a check, and wrong answers" {
    [ ${#folders[@]} -gt 0 ]
    for folder in "${folders[@]}"; do
        number=$(number_of "$folder")
        lacks=$(missing "$folder")
        [ -z "$lacks" ] || { printf '%s\n' "$folder:" "$lacks" && return 1; }
        [ -s "$folder/check" ]
        grep -q '^wrong ' "tests/exercises/answers/$number"
    done
}

@test "each step has exercises, whose numbers have no gap, and the debugging lab has faults" {
    list=$(exercises/run.sh list)
    for step in 1 2 3 4 5 6 7 8 9; do
        numbers=$(awk -v step="$step." 'index($1, step) == 1 { print $1 }' <<<"$list")
        [ -n "$numbers" ]
        [ "$numbers" = "$(seq -f "$step.%g" "$(wc -l <<<"$numbers")")" ]
    done
    [ "$(grep -c '^debug\.' <<<"$list")" -gt 0 ]
}

@test "each exercise can be made from the steps, and a line that has changed there is reported" {
    for folder in "${folders[@]}"; do
        exercises/run.sh cut "$(number_of "$folder")" "$BATS_TEST_TMPDIR"
    done
    sed 's/    softmax_cross_entropy(/    cross_entropy(/' 01_single_gpu/train.c >"$BATS_TEST_TMPDIR/train.c"
    run awk -v task=exercises/1.1-four-operations/task -v file=01_single_gpu/train.c -f exercises/replace.awk \
        "$BATS_TEST_TMPDIR/train.c"
    [ "$status" = 1 ]
    [[ $output == *"train_step in 01_single_gpu/train.c does not hold these lines"* ]]
}

@test "the README of a step names an exercise before it shows lines that the exercise asks for" {
    cut=$BATS_TEST_TMPDIR/cut
    mkdir "$cut"
    for folder in exercises/[0-9]*; do
        exercises/run.sh cut "$(number_of "$folder")" "$cut"
        while IFS= read -r file; do
            diff "$file" "$cut/${file##*/}" | sed -n 's/^< *\(.\{12,\}\)/\1/p' >"$cut/lines"
            awk -v link="(../$folder/README.md)" 'FNR == NR { lines[$0]; next }
                index($0, link) { exit }
                /^```/ { inside = !inside }
                inside { sub(/^[-+ ]*/, ""); if ($0 in lines) { print FILENAME ", line " FNR ": " link; exit 1 } }' \
                "$cut/lines" 0"${folder:10:1}"_*/README.md
        done < <(sed -n 's/^file //p' "$folder/task")
    done
}

@test "a README is a path: exercises in order, what answers them after them, and the first own line within three minutes" {
    awk '
        function complain(text) { print FILENAME ", line " FNR ": " text; failed = 1 }
        function write(folder,   line, word, file) {
            while ((getline line <(folder "/task")) > 0) {
                split(line, word, /[ :]+/)
                if (word[1] == "file") file = word[2]
                if (word[1] == "in" && ((file, word[2]) in read || (file, "") in read))
                    complain("the reader already knows " word[2] " in " file ", the answer of " folder)
            }
            while (!number && (getline line <(folder "/README.md")) > 0 && line !~ /^<details>/)
                words += split(line, word, " ")
            if (!number++ && words > 600) complain(words " words before the first own line")
        }
        FNR == 1 { step = FILENAME; sub(/[^\/]*$/, "", step); number = words = code = guesses = 0 }
        /^```/ { code = !code }
        !code { words += NF }
        /^<details><summary>Guess first: / { guesses++ }
        match($0, /make diff[1-9][1-9]/) {
            command = "echo 0" substr($0, RSTART + 10, 1) "_*/train.c"
            command | getline file
            close(command)
            read[file, ""]
        }
        /^[0-9]+\. `.*\.[ch]`/ { entry = "" } # such as 1. `ranks.c`: `start_ranks`, `report_end`: how it works (5 min)
        /^[0-9]+\. `.*\.[ch]`/, / min\)$/ {
            sub(/^ +/, " ")
            entry = entry $0
            if (/ min\)$/) {
                split(entry, part, /: */)
                file = part[1]
                gsub(/^.*\. `|`$/, "", file)
                count = part[2] ~ /^`/ ? split(part[2], names, ", ") : 1
                for (i = 1; i <= count; i++)
                    read[(file ~ /\// ? "" : step) file, part[2] ~ /^`/ ? substr(names[i], 2, length(names[i]) - 2) : ""]
            }
        }
        /^\*\*Write\*\* \[exercise / {
            match($0, /exercises\/[^\/]*/)
            print substr($0, RSTART, RLENGTH)
            write(substr($0, RSTART, RLENGTH))
        }
        /^## What PyTorch calls it/ && !guesses { complain("no guess before a run") }
        END { exit failed }' 0*/README.md >"$BATS_TEST_TMPDIR/path" || { cat "$BATS_TEST_TMPDIR/path" && return 1; }
    for readme in 0*/README.md; do
        printf '%s\n' exercises/"${readme:1:1}".*/ | sed 's|/$||' | sort -V
    done | diff - "$BATS_TEST_TMPDIR/path"
}
