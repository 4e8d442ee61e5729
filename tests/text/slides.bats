#!/usr/bin/env bats
# Tests of the slides in docs/slides: their numbers are those that the deck shows, and the PDF files show all of their text.
load ../helpers
needs=(python3)
begin_in=$root

@test "no slide has a fixed port, and each exercise on a slide has its name and a timer" {
    python3 -B tests/text/check_slides.py
}

# deck SLIDE: writes deck.md with this slide.
deck() {
    printf '%s\n' --- 'marp: true' 'theme: course' 'paginate: true' 'title: "9 Planted"' 'footer: "Planted mistakes"' --- "$1" >deck.md
}

notes=$'<!--\n2 minutes\nSay: this is a sentence of the speaker, and it has more than twelve words in all.\n-->'

@test "a slide says no number that its deck does not show, and describes none that is not in the figure" {
    python3 -B tests/text/said_numbers.py
}

@test "make schedule adds up the minutes of the slides and of the exercises" {
    # Exercise 2.1 takes 10 minutes, as its README says.
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree"
    rm docs/slides/[1-9]-*.md
    deck $'# Talk of <!-- = 1 + 1 -->2<!-- end --> minutes\n'"$notes"$'\n\n---\n\n<!-- _class: exercise -->\n# Exercise 2.1: Sum the gradients\n'"$notes"
    mv deck.md docs/slides/1-planted.md
    run make -s schedule ARGS=--slides
    diff - <(tr -s ' ' <<<"$output") <<'END'
| session | slides | words a minute | talk (min) | exercises (min) | both (min) |
|---|---|---|---|---|---|
| 9 Planted | 2 | 8 | 4 | 10 | 14 |
| all | 2 | 8 | 4 | 10 | 14 |

9 Planted: each slide, after the minute at which it begins
 0 1 Talk of 2 minutes
 2 2 Exercise 2.1: Sum the gradients
END
}

@test "make demo runs the commands of a slide, and draws its chart from what they print" {
    need_train 06_allreduce_demo/allreduce
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree"
    rm docs/slides/[1-9]-*.md
    demo=(tools/demo.py --programs "${TRAIN%/*/*}")
    quote=$'# Quote\n```\necho one >>left; wc -l <left; 06_allreduce_demo/allreduce --help | head -n 1; echo hidden; echo launch: no\n```\n```output\n1\nusage: 06_allreduce_demo/allreduce [options]\n...\n```\n'
    chart=$'# Chart\n<!-- draws sent-bytes -->\n```\nsed s/12000036/9000036/ docs/figures/sent-bytes.txt\n```\n'
    deck "$quote$notes"$'\n\n---\n\n'"$chart$notes"$'\n\n---\n\n# Code that a demo does not need\n<!-- code none.c main -->\n'"$notes"
    mv deck.md docs/slides/1-planted.md
    diff - <(make -s demo) <<'END'
make demo S=1.1   Quote
make demo S=1.2   Chart
END
    echo mine >left
    for _ in 1 2; do # the second run finds neither the file of the first one nor that of the reader
        "${demo[@]}" 1.1 | tee out
        grep -qx 'Slide 1.1: Quote' out
        grep -qx 1 out
        grep -q 'allreduce \[options\]' out
        run ! grep -qE '^(hidden|launch)' out # the slide has dots there
        [ "$(<left)" = mine ]
    done
    unset DISPLAY WAYLAND_DISPLAY
    "${demo[@]}" 1.2 | tee out # without a screen, the chart is drawn in letters
    grep -qE '^ +rank 0 =+ +9 MB sent$' out
    run ! grep -F gather+bcast out # the slide shows no output
    grep -qx 'build/demo/1.2/sent-bytes.svg shows these numbers' out
    grep -q '>9 MB sent<' build/demo/1.2/sent-bytes.svg
    if command -v script >/dev/null; then
        TERM=dumb script -qec "${demo[*]} 1.2" /dev/null | tee out
        run ! grep -F $'\033' out
    fi
    sed -i s/9000036/9000000000000036/ docs/slides/1-planted.md # the numbers of this machine may spoil the layout
    "${demo[@]}" 1.2 | grep '9000000000 MB sent'
    fails 1 'error: there is no slide 1.3 with commands; make demo lists them' "${demo[@]}" 1.3
    sed -i -e 's/echo hidden/echo error: why; false/' -e 's/^sed s/sed -n s/' docs/slides/1-planted.md
    run "${demo[@]}" 1.1
    [[ $status == 1 && $output == *$'\nerror: why\nerror: the commands ended with status 1'* ]]
    rm -r build/demo && touch build/demo
    fails 1 'error: build/demo/1.1 cannot be made anew (Not a directory)' "${demo[@]}" 1.1
    rm build/demo
    fails 1 'error: docs/figures/sent-bytes.py finds no numbers in what the commands printed' "${demo[@]}" 1.2
}

@test "each make demo that a text names is a slide with commands" {
    for slide in $(git grep -hoE 'make demo S=[0-9]+\.[0-9]+' -- README.md docs/\*.md | sort -u | cut -d= -f2); do
        make -s demo | grep -q "^make demo S=$slide " || { echo "slide $slide has no commands" && return 1; }
    done
}

@test "every exercise of the schedules in docs/instructor.md has a slide" {
    count=0
    while read -r number; do
        grep -qE "^# (Exercise|Fault) ${number/./\\.}: " docs/slides/*.md || { echo "no slide for $number" && return 1; }
        count=$((count + 1))
    done < <(grep -hoE '^\| (Exercises?|Faults?) [^|]*' docs/instructor.md | grep -oE '(debug|[0-9])\.[0-9]+' | sort -u)
    [ $count -gt 0 ]
}

# Builds the slides of all sessions, once for all tests.
build_slides() {
    command -v npm >/dev/null || skip "npm is not installed"
    command -v pdftotext >/dev/null || skip "pdftotext is not installed"
    [ -n "${CHROME_PATH:-}" ] || command -v chromium >/dev/null || skip "chromium is not installed"
    [ ! -e "$BATS_FILE_TMPDIR/built" ] || return 0
    make -s slides >"$BATS_TEST_TMPDIR/npm" 2>&1 || {
        [ -e build/node/installed ] || skip "npm cannot install Marp: $(grep -m 1 error "$BATS_TEST_TMPDIR/npm")"
        cat "$BATS_TEST_TMPDIR/npm" && return 1
    }
    touch "$BATS_FILE_TMPDIR/built"
}

@test "the PDF of each session shows all text of its slides, large enough and inside of the page" {
    build_slides
    python3 -B tests/text/check_slides.py --pdf build/slides
    for deck in docs/slides/[1-9]-*.md; do
        page=build/slides/$(basename "$deck" .md).html
        grep -q 'class="timer"' "$page"
        run ! grep -q '^\*\*' "$page" # the stars of notes
        run ! grep -qE '(src|href)="https?://[^"]*\.(js|css|svg|png|woff2)"' "$page" # one file is enough
        run ! grep -oE '<a [^>]*href="[^h#][^"]*"' "$page" # a text of the course may lie anywhere beside it
    done
}

@test "a click starts the timer of an exercise" {
    build_slides
    sed 's|</body>|<script>document.querySelector(".timer").click();</script>&|' build/slides/2-data-parallel.html \
        >"$BATS_TEST_TMPDIR/clicked.html"
    chromium --headless --no-sandbox --disable-gpu --user-data-dir="$BATS_TEST_TMPDIR/profile" --virtual-time-budget=2500 \
        --dump-dom "file://$BATS_TEST_TMPDIR/clicked.html" 2>/dev/null | grep -m 1 -o 'class="timer[^>]*>[^<]*' |
        tee "$BATS_TEST_TMPDIR/timer"
    grep -q 'class="timer running".*>[0-9]*:5[0-9]$' "$BATS_TEST_TMPDIR/timer"
}
