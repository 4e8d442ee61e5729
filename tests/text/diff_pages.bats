#!/usr/bin/env bats
# Tests of make diffs, whose pages diff2html draws in the browser.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

# draws SIGN CLASS: the page has a cell of this class for each line of the difference that begins with the sign.
draws() {
    local wanted drawn
    wanted=$(grep "^[$1]" page | grep -cv "^[$1][$1][$1] ")
    drawn=$(grep -o '<td class="[^"]*"' dom | grep -v linenumber | grep -c "$2")
    ((wanted > 5 && drawn == wanted)) || { echo "$1: $drawn lines of $wanted" && return 1; }
}

@test "make diffs writes a page for each pair of steps, which Chromium draws side by side without a network" {
    local program pair
    for program in npm chromium; do
        command -v $program >/dev/null || skip "$program is not installed"
    done
    cd "$root"
    make -s diffs >"$BATS_TEST_TMPDIR/out" || [ -e build/diffs/node/installed ] || skip "npm cannot install diff2html"
    grep -q 'build/diffs/index.html: 7 pages' "$BATS_TEST_TMPDIR/out"
    run ! grep -E '(src|href)="[a-z]+:' build/diffs/*.html
    cd "$BATS_TEST_TMPDIR"
    for pair in 12 23 34 45 57 48 89; do
        cp "$root/build/diffs/diff$pair.html" page
        chromium --headless --no-sandbox --disable-gpu --user-data-dir="$PWD/profile" --virtual-time-budget=5000 \
            --enable-logging=stderr --dump-dom "file://$root/build/diffs/diff$pair.html" >dom 2>log
        run ! grep CONSOLE log # of errors in the page
        grep -q "<h1>Step ${pair:1}: " dom && grep -q 'The one idea:' dom
        draws + d2h-ins
        draws - d2h-del
        [ "$(grep -o hljs-keyword dom | wc -l)" -gt 10 ]
    done
}
