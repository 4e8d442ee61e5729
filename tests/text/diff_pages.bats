#!/usr/bin/env bats
# Tests of tools/diff_pages.py, which writes a page for each pair of steps. read_page.py reads a page as text, and
# browse_pages.py looks at it in Chromium and presses its keys.
# shellcheck disable=SC2030,SC2031,SC2154 # bats and helpers.bash set variables across functions
load ../helpers

setup() {
    cd "$BATS_TEST_TMPDIR" || return
    unset MAKEFLAGS MFLAGS MAKELEVEL DEVICE
    command -v python3 >/dev/null || skip "python3 is not installed"
    tool=$root/tools/diff_pages.py
}

# Two steps, with one definition of each kind: new, removed, changed and unchanged.
two_steps() {
    mkdir 01_one 02_two
    cat >01_one/train.c <<'END'
// Step 1: one counter.
#include <stdio.h>

struct counter {
    int first; // where it <starts>
};

static int gone(int x) {
    return x & 1;
}

// Adds all numbers up to the last one.
static void add_up(struct counter *c, int last) {
    for (int i = c->first; i <= last; i++)
        c->total += i;
    c->last = last;
}

static void show(void) {
    puts("shown");
}
END
    sed -e '/^static int gone/,/^$/d' -e 's/c->total += i/& * i/' -e 's/^#include.*/&\n#include <math.h>/' \
        -e 's/^static void show/static int news(void) {\n    return 1;\n}\n\n&/' 01_one/train.c >02_two/train.c
    printf '# Step 1: one\n\n**The one idea:** it adds.\n\nText.\n' >01_one/README.md
    cat >02_two/README.md <<'END'
# Step 2: two

**To read**, in this order:

1. `make diff12`: the changes (1 min)
2. `extra.c`: `second`: the
   rest (1 min)

**The one idea:** it adds *squares*, as [the text](other.md) says
about `add_up`.

More text.
END
    printf 'int first(void) {\n    return 1;\n}\n\nint second(void) {\n    return 2;\n}\n' >02_two/extra.c
}

read_page() { # PAIR [FOLDER]
    python3 -B "$root/tests/text/read_page.py" "${2:-pages}/diff$1.html" 0"${1%?}"_*/train.c 0"${1#?}"_*/{train.c,README.md}
}

@test "each page shows all lines of both steps in order, the changes of git, folded functions and the idea of the README" {
    cd "$root"
    pairs=$(sed -n 's/^DIFFS := //p' Makefile | sed 's/diff//g')
    # shellcheck disable=SC2086 # a list of words
    "$tool" -o "$BATS_TEST_TMPDIR/pages" $pairs
    for pair in $pairs; do
        read_page "$pair" "$BATS_TEST_TMPDIR/pages"
        grep -q "<a href=\"diff$pair.html\">Step ${pair#?}: " "$BATS_TEST_TMPDIR/pages/index.html"
        grep -q '<del>' "$BATS_TEST_TMPDIR/pages/diff$pair.html"
        grep -q 'class="file"' "$BATS_TEST_TMPDIR/pages/diff$pair.html"
    done
}

@test "a page names the definitions, marks changed words and shows the files to read" {
    two_steps
    run -0 "$tool" -o pages 12
    [[ $output == "pages/index.html: 1 page. Open it in a browser"* ]]
    read_page 12
    sed -n 's/.*<summary>\(.*\)<\/summary>.*/\1/p' pages/diff12.html | sed 's/<[^>]*>//g' >names
    diff names - <<'END'
first comment unchanged, 1 line
includes changed +1
struct counter unchanged, 4 lines
gone removed −4
add_up changed +1 −1
news new +4
show unchanged, 3 lines
second 3 lines
END
    grep -q 'total += i <ins>\* i</ins>;' pages/diff12.html
    grep -q '// where it &lt;starts&gt;' pages/diff12.html
    grep -qF 'It adds <em>squares</em>, as the text says about <code>add_up</code>.' pages/diff12.html
    grep -qF '<b class="plus">+6</b> <b class="minus">−5</b></h1>' pages/diff12.html
}

@test "a removed line stands beside the line that replaces it" {
    two_steps
    printf '%s\n' 'int f(void) {' '    one(1);' '    two(a, b);' '}' >01_one/train.c
    printf '%s\n' 'int f(void) {' '    zero(x);' '    two(a, b, c);' '}' >02_two/train.c
    "$tool" -o pages 12
    read_page 12
    grep -q 'two(.*two(.*<ins>, c</ins>' pages/diff12.html
    grep -q 'one(.*zero(' pages/diff12.html # they differ too much to mark words
    run ! grep -q '<del>' pages/diff12.html
    printf '%s\n' 'int f(void) {' '    // Never.' '    zero(x);' '    two(a, b);' '}' >02_two/train.c
    "$tool" -o pages 12
    read_page 12
    grep -q 'one(.*zero(' pages/diff12.html # and not beside a comment
}

@test "read_page.py finds lost, repeated and changed lines, wrong marks and numbers, open functions, another idea and links" {
    two_steps
    "$tool" -o right 12
    read_page 12 right
    plant() { # TEXT SED...
        rm -rf pages && cp -r right pages
        edit pages/diff12.html "${@:2}"
        run read_page 12
        [ "$status" = 1 ] && grep -qF -- "$1" <<<"$output" || { echo "wanted: $1" "$output" && return 1; }
    }
    plant '01_one/train.c: the page has' '/puts/d'
    plant '02_two/train.c: the page has' 's/^<tr.*puts.*/&\n&/'
    plant "02_two/train.c: the page has '    return 3;'" 's/(>return<.*>)1</\13</'
    plant 'added lines: the page has ' 's/<tr class="on( change)?">(.*)return/<tr class="same">\2return/'
    plant 'the numbers [18' 's/>19</>18</'
    plant 'struct counter unchanged, 4 lines: open is True, with 0 changed rows' 's/(id="struct-counter")/\1 open/'
    plant 'add_up changed +1 −1: open is False, with 1 changed rows' 's/(id="add_up") open/\1/'
    plant "the idea: the page has 'cubes" 's/squares/cubes/'
    plant '<script> needs https://example.org/x.js' 's|<script>|<script src="https://example.org/x.js">|'
}

@test "one line reports a full disk, or a missing step, title or idea" {
    two_steps
    mkdir full && ln -s /dev/full full/diff12.html
    fails 1 "error: full/diff12.html: No space left on device" "$tool" -o full 12
    fails 1 "error: /dev/null/pages: Not a directory" "$tool" -o /dev/null/pages 12
    fails 1 "step 3 has no train.c here (looked for 03_*/train.c)" "$tool" 23
    fails 1 "error: 123 is no pair of steps, such as 12" "$tool" 123
    fails 1 "git is not installed" env PATH=/nowhere "$(python3 -c 'import sys; print(sys.executable)')" "$tool" 12
    sed -i 's/one idea/idea/' 02_two/README.md
    fails 1 "02_two/README.md has no paragraph that begins with **The one idea:**" "$tool" 12
    sed -i 1d 02_two/README.md
    fails 1 "02_two/README.md has no title that begins with # Step 2:" "$tool" 12
    [ ! -e build ]
}

need_browser() {
    for program in chromium chromedriver; do
        command -v $program >/dev/null || skip "$program is not installed"
    done
}

@test "in Chromium at 1280 x 720, nothing is wider than the page, the console is empty and the keys work" {
    need_browser
    cd "$root"
    # shellcheck disable=SC2046 # a list of words
    "$tool" -o "$BATS_TEST_TMPDIR/pages" $(sed -n 's/^DIFFS := //p' Makefile | sed 's/diff//g')
    python3 -B tests/text/browse_pages.py "$BATS_TEST_TMPDIR/pages"
}

@test "browse_pages.py finds wide lines, small letters, messages of the console and keys that do not work" {
    need_browser
    two_steps
    sed -i "s/puts(\"shown\");/puts($(printf '"shown" %.0s' {1..30}));/" 0*/train.c
    "$tool" -o right 12
    python3 -B "$root/tests/text/browse_pages.py" right
    plant() { # TEXT SED
        rm -rf pages && cp -r right pages
        edit pages/diff12.html "$2"
        run python3 -B "$root/tests/text/browse_pages.py" pages
        [ "$status" = 1 ] && grep -qF -- "$1" <<<"$output" || { echo "wanted: $1" "$output" && return 1; }
    }
    plant 'puts("shown" "shown"' 's/white-space: pre-wrap; overflow-wrap: anywhere;/white-space: pre;/'
    plant 'all functions open: the page is 1300 wide' 's/^body \{/details.unchanged[open] { width: 1300px; } &/'
    plant '<TD> has small letters' 's|font: 20px/26px|font: 18px/26px|'
    plant 'no_such_function is not defined' 's/^show_place\(\);/&\nno_such_function();/'
    plant 'n does not show change 1' 's/n: \(\) => go_to_change\(1\)/n: () => 0/'
    plant 'o does not fold' 's/o: fold,//'
}
