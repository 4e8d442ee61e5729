#!/bin/sh
# diff_pages.sh PAIR...: writes a page for each pair of steps, such as build/diffs/diff12.html for 12, and index.html. A page
# shows the whole functions of train.c that the later step changes, side by side, below the one idea of that step. diff2html,
# which make diffs installs, draws them in the browser. The folder build/diffs needs no network.
# shellcheck disable=SC2016 # the backquotes are those of Markdown
set -u

out=build/diffs
packages=$out/node/node_modules
cp $packages/diff2html/bundles/js/diff2html-ui-slim.min.js $packages/diff2html/bundles/css/diff2html.min.css \
    $packages/highlight.js/styles/github.min.css $out || exit

escape() { sed 's/&/\&amp;/g; s/</\&lt;/g'; }

head_of() { # TITLE
    cat <<HTML
<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>$1</title>
<link rel="stylesheet" href="github.min.css">
<link rel="stylesheet" href="diff2html.min.css">
<style>body { font-family: sans-serif; } #pages { overflow-x: auto; } .d2h-file-list-wrapper { display: none; }</style>
<h1>$1</h1>
HTML
}

idea_of() { # README: its paragraph that begins with **The one idea:**
    awk '/^\*\*The one idea:\*\*/ { inside = 1 } inside && /^$/ { exit } inside' "$1" | escape |
        sed 's/^\*\*The one idea:\*\*/<p><b>The one idea:<\/b>/; s/`\([^`]*\)`/<code>\1<\/code>/g; s/\[\([^]]*\)\]([^)]*)/\1/g'
}

head_of 'What each step changes' >$out/index.html || exit
for pair; do
    old=$(echo 0"${pair%?}"_*/train.c) new=$(echo 0"${pair#?}"_*/train.c) page=$out/diff$pair.html
    readme=${new%/*}/README.md
    title=$(sed -n '1s/^# //p' "$readme") || exit
    {
        head_of "$title"
        idea_of "$readme"
        echo '<pre id="diff" hidden>'
        git diff --no-index --no-ext-diff --no-textconv --text --no-color --no-prefix --diff-algorithm=minimal \
            --indent-heuristic --function-context "$old" "$new" | escape
        echo '</pre><div id="pages"></div><script src="diff2html-ui-slim.min.js"></script><script>'
        echo 'const diff = document.getElementById("diff").textContent.trimStart(), pages = document.getElementById("pages");'
        echo 'const settings = { outputFormat: "side-by-side", matching: "lines", synchronisedScroll: true };'
        echo 'const drawn = new Diff2HtmlUI(pages, diff, settings);'
        echo 'drawn.draw(); drawn.highlightCode();</script>'
    } >"$page" || exit
    { echo "<h2><a href=\"diff$pair.html\">$title</a></h2>" && idea_of "$readme"; } >>$out/index.html
done
echo "$out/index.html: $# pages. Open it in a browser."
