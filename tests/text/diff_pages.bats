#!/usr/bin/env bats
# Tests of make diffs, whose pages diff2html draws in the browser.
# shellcheck disable=SC2154 # helpers.bash sets $root
load ../helpers

@test "make diffs writes a page for each pair of steps, which Chromium draws side by side without a network" {
    for program in npm chromium chromedriver; do
        command -v $program >/dev/null || skip "$program is not installed"
    done
    cd "$root"
    make -s diffs >"$BATS_TEST_TMPDIR/out" || [ -e build/diffs/node/installed ] || skip "npm cannot install diff2html"
    grep -q 'build/diffs/index.html: 5 pages' "$BATS_TEST_TMPDIR/out"
    run ! grep -E '(src|href)="[a-z]+:' build/diffs/*.html
    cd tests/text
    python3 -B - <<'PYTHON'
import html
import re
from browser import Browser

with Browser(1280, 720) as browser:
    for pair in "12", "23", "34", "45", "57":
        page = f"../../build/diffs/diff{pair}.html"
        browser.open(page)
        text = browser.run("return document.body.innerText")
        assert f"Step {pair[1]}: " in text and "The one idea:" in text, text
        diff = html.unescape(re.search(r"<pre id=.diff.*?</pre>", open(page).read(), re.S).group())
        for sign, side in ("+", "ins"), ("-", "del"):
            wanted = len(re.findall(rf"^\{sign}(?!\{sign}\{sign} )", diff, re.M))
            drawn = browser.run(f"return document.querySelectorAll('td.d2h-{side} .d2h-code-line-ctn').length") or browser.run(
                f"return document.querySelectorAll('td .d2h-code-side-line.d2h-{side}').length")
            assert drawn == wanted > 5, (pair, sign, drawn, wanted)
        assert browser.run("return document.querySelectorAll('.hljs-keyword').length") > 10
        assert not browser.messages(), browser.messages()
PYTHON
}
