#!/usr/bin/env bash
# style.sh: prints notes, such as that a text has grown too long, or that the minutes of a schedule do not add up. There may
# be a good reason for it, so a note is no failure.
export LC_ALL=C.UTF-8 # where numbers have a comma, mawk reads 2.5 as 2
cd "$(dirname "$0")/.." || exit

# at_most LINES FILE...: the limits are a tenth above what the course needs, so that nobody squeezes a line to fit.
at_most() {
    local lines
    lines=$(cat "${@:2}" | wc -l)
    [ "$lines" -le "$1" ] || echo "${*:2}: $lines lines, more than $1"
}

lengths() {
    local file
    at_most 300 01_single_gpu/train.c
    at_most 550 07_large_models/train.c # step 5, and five more methods
    at_most 520 08_pipeline/train.c     # step 4, and the works and transfers of a stage
    at_most 550 09_tensor/train.c       # step 8, and the parts
    for file in 0*/*.c; do
        [[ $file == 0[789]_*/train.c ]] || at_most 480 "$file"
    done
    at_most 470 03_multigpu_launcher/{launch,local_ranks}.c
    while read -r file; do
        at_most 400 "$file"
    done < <(find common zoo watch -name '*.[ch]' -o -name '*.cu')
    # An afternoon must be enough to read any folder of modules from top to bottom.
    for file in common/*/ zoo/*/ watch/; do
        [[ $file == @(common|zoo)/kernels/ ]] || at_most 1000 "$file"*
    done
    at_most 900 common/kernels/* # most kernels twice
    at_most 1600 zoo/kernels/*
    { tools/author/diffstat.sh; tools/author/reading.sh; } 2>&1 | grep '^error'
}

# What a README of a step has: the idea in one line, a run that shows the problem, a picture of the idea, and these sections.
readmes() {
    local file
    local sections='(What to remember,)?The problem,The idea,The code,(Run it,)?Look at it,Read it,What PyTorch calls it'
    for file in 0*_*/README.md; do
        {
            sed -n 3p "$file" | grep -qE '^\*\*The one idea:\*\* .*\.$' || echo 'no idea in line 3'
            sed -n '/^## The idea/,/^## The code/p' "$file" | grep -q '^!\[' || echo 'no picture in The idea'
            sed -n '/^## The code/,/^## [RL]/p' "$file" | grep -qE '^<!-- (code|diff) ' || echo 'no code in The code'
            sed -n 's/^## //p' "$file" | paste -sd, | grep -qxE "$sections" || echo "other sections than: $sections"
        } | sed "s|^|$file: |"
    done
}

# Sentences belong above a table.
cells() {
    find . -name '*.md' ! -path './build/*' -print0 | xargs -0 awk -F '|' '
        FNR == 1 { block = 0 }
        /^ *```/ { block = !block }
        !block && /^\|/ {
            for (i = 2; i < NF; i++) {
                gsub(/<!-- = [^>]*-->|<!-- end -->/, "", $i) # the marks of a computed value
                gsub(/^ +| +$/, "", $i)
                if (length($i) > 90) print FILENAME ":" FNR ": a cell of " length($i) " characters: " $i
            }
        }'
}

glossary() {
    sed -nE 's/^- \*\*([^*]+)\*\*.*/\1/p' docs/glossary.md | LC_ALL=C sort -cf 2>&1 |
        sed 's|.*disorder: |docs/glossary.md: not in order: |'
}

# The minutes of each schedule add up, and those of its parts are those of the texts and exercises.
schedules() {
    local line number part minutes sum title='' wanted=0 exercise
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
        elif [[ $line =~ ^In\ ([0-9]+)\ minutes:$ ]]; then
            wanted=${BASH_REMATCH[1]}
        elif [[ $line =~ ^\|\ ([1-5])\ \|\ ([0-9]+)\ \|\ ([0-9]+)\ \|\ ([0-9]+)\ \|\ (.*)\ \(([0-9]+)\)\ \|$ ]]; then
            minutes=$((BASH_REMATCH[2] + BASH_REMATCH[3] + BASH_REMATCH[4] + BASH_REMATCH[6])) part=${BASH_REMATCH[1]} number=${BASH_REMATCH[6]}
            for exercise in ${BASH_REMATCH[5]//,/}; do
                number=$((number - ${times[$exercise]:--1000}))
            done
            [[ $minutes = "$wanted" && $number = 0 ]] ||
                echo "docs/instructor.md: session $part in $wanted minutes: they do not add up"
        elif [[ $line =~ ^\|\ (.*)\ \|\ ([0-9]+)\ \|$ ]]; then
            part=${BASH_REMATCH[1]} minutes=${BASH_REMATCH[2]}
            sum=$((sum + minutes))
            if [[ $part =~ ^Read\ step\ ([0-9])$ ]] && [ "$minutes" != "${reading[${BASH_REMATCH[1]}]}" ]; then
                echo "docs/instructor.md: $title: $part takes ${reading[${BASH_REMATCH[1]}]} minutes, not $minutes"
            elif [[ $part =~ ^(Exercises?|Faults?)\  ]]; then
                number=0
                while read -r exercise; do
                    number=$((number + ${times[$exercise]:--1000}))
                done < <(grep -oE '(debug|[0-9])\.[0-9]+' <<<"$part")
                [ "$number" = "$minutes" ] || echo "docs/instructor.md: $title: $part take $number minutes, not $minutes"
            fi
        elif [[ $line == '' && ${sum:-0} -gt 0 ]]; then
            [ "$sum" = "$wanted" ] || echo "docs/instructor.md: $title: the parts take $sum minutes, not $wanted"
            sum=0
        fi
    done <docs/instructor.md
}

# A session has 40 to 60 minutes of talk, and notes say more than a few words.
decks() {
    python3 -B - <<'END'
import sys
sys.path.insert(0, "tools/author")
from slides import decks
for deck in decks():
    for slide in deck.slides:
        if len((slide.notes or "").split()) < 12:
            print(f"docs/slides: slide {deck.address(slide)}: notes of fewer than 12 words")
END
    tools/author/slides.py schedule | awk -F ' *\\| *' '/^\| [1-9] / && ($5 < 40 || $5 > 60) { print "docs/slides: " $2 ": " $5 " minutes of talk" }'
}

exercise_texts() {
    local folder number minutes most
    for folder in exercises/[0-9]*/ exercises/debug/*/; do
        number=$(basename "$folder") number=${number%%-*} most=20
        [[ $folder != */debug/* ]] || number=debug.$number
        minutes=$(sed -n 's/^\*\*Time:\*\* \([0-9]*\) minutes$/\1/p' "$folder/README.md")
        [ "$(grep -c '^<details><summary>' "$folder/README.md")" = 3 ] || echo "exercise $number: not three folded parts"
        [[ $minutes -ge 5 && $minutes -le $most ]] || echo "exercise $number: minutes: $minutes, not 5 to $most"
        [ "$(sed '/^<details>/,$d' "$folder/README.md" | wc -l)" -le 25 ] || echo "exercise $number: more than 25 lines before the first hint"
    done
}

{ lengths; readmes; cells; glossary; schedules; decks; exercise_texts; } | sed 's/^error: //; s/^/note: /'
