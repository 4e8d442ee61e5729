#!/usr/bin/env bats
# Tests of make site in Chromium. The slides have tests of their own, so empty files stand for them.
# bats file_tags=test-all
load ../helpers

setup_file() {
    local deck
    command -v npm >/dev/null || skip "npm is not installed"
    export CHROME_PATH=${CHROME_PATH:-$(command -v chromium)}
    [ -n "$CHROME_PATH" ] || skip "chromium is not installed"
    copy_tree "$BATS_FILE_TMPDIR/tree"
    cd "$BATS_FILE_TMPDIR/tree" || return
    mkdir -p "$root/build/site-node" build/slides
    ln -s "$root/build/site-node" build/site-node
    for deck in docs/slides/[1-9]-*.md; do
        touch "build/slides/$(basename "$deck" .md)".{html,pdf}
    done
    make -s site >"$BATS_FILE_TMPDIR/out" 2>&1 || [ -e build/site-node/installed ] ||
        skip "npm cannot install Eleventy: $(grep -m 1 error "$BATS_FILE_TMPDIR/out")"
    export NODE_PATH=$root/build/site-node/node_modules
}

setup() {
    site=$BATS_FILE_TMPDIR/tree/build/site
    [ -e "$site/index.html" ] || { cat "$BATS_FILE_TMPDIR/out" && return 1; }
}

check() { # CHECK [FOLDER]
    node "$root/tests/text/site.js" "$1" "${2:-$site}"
}

@test "each link and each anchor of the site exists, and nothing comes from another host" {
    check links
    [ "$(find "$site" -name '*.html' | wc -l)" -gt 300 ]
}

@test "no script of the site fails, and no page is wider than a phone" {
    check pages
}

@test "a printed page is light, has no buttons, and is not cut" {
    check paper
}

@test "a search finds all-reduce, and the keyboard opens the pages found" {
    check search
}

lines_of() { # added|removed: those of the page
    sed 's/<\/td>/\n/g' "$page" | sed -n "s/.*<td class=\"$1\">//p" |
        sed "s/<[^>]*>//g; s/ *$//; s/&lt;/</g; s/&gt;/>/g; s/&quot;/\"/g; s/&#x27;/'/g; s/&amp;/\&/g"
}

@test "the pages of differences show each line that a step adds or removes" {
    for page in "$site"/diffs/diff??.html; do
        pair=${page##*/diff} pair=${pair%.html}
        git diff --no-index --diff-algorithm=minimal --indent-heuristic \
            "$root/0${pair%?}"_*/train.c "$root/0${pair#?}"_*/train.c >changes || true
        diff <(sed -n '5,$s/^+//p' changes) <(lines_of added)
        diff <(sed -n '5,$s/^-//p' changes) <(lines_of removed)
    done
}

@test "each player shows something else at each place, and plays" {
    check players
}

@test "the recorded timelines are those of the programs of now" {
    need_train 03_multigpu_launcher/launch {02_multigpu_fork,04_multinode,05_fsdp,07_large_models,08_pipeline,09_tensor}/train
    make -s -C "$root" DEVICE=cpu BUILD=build/test build/test/bench/ring_rounds
    "$root/tools/author/timelines.py" --programs build/test --check 5 02_multigpu_fork 04_multinode 05_fsdp 06_allreduce_demo 08_pipeline 09_tensor
}
