#!/usr/bin/env bats
# Each name between backticks in a README or another text exists: words in a source, options in a source or a table of
# options, files in the repository, targets in the Makefile. A name that does not exist is reported with file and line.
# other_names.txt lists names of other programs. Tables of variables are also checked here.
bats_require_minimum_version 1.5.0
root=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)

# Prints what exists, a kind and a name in each line.
what_exists() {
    local sources=$BATS_TEST_TMPDIR/sources
    find . \( -name .git -o -path ./build -o -path ./data -o -path ./work \) -prune -o -type f -print | sed 's|^\./||' >"$sources.all"
    sed 's|^|file |' "$sources.all"
    grep -vE '\.md$|^tests/text/' "$sources.all" | tr '\n' '\0' >"$sources"
    xargs -0 grep -IohE '[A-Za-z_][A-Za-z0-9_]*' <"$sources" | sort -u | sed 's|^|word |'
    xargs -0 grep -IohE -e '--[a-z][a-z0-9-]*' <"$sources" | sort -u | sed 's|^|option |'
    xargs -0 grep -IohE '"[a-z0-9-]+", *OPTION_' <"$sources" | sed -E 's|"([^"]*)".*|option --\1|'
    # An exit code of 1 means that a target is not up to date.
    { make -qpRr DEVICE=cpu help 2>/dev/null || [ $? = 1 ]; } | sed -nE 's/^([a-zA-Z][a-zA-Z0-9-]*):.*/target \1/p' | sort -u
    grep -v '^#' tests/text/other_names.txt | tr ' ' '\n' | sed 's|^|other |'
}

# missing EXISTING TEXT...: prints each name between backticks that does not exist.
missing() {
    awk '
    function report(kind, name) { print place ": " kind " " name " does not exist"; return 1 }

    function pattern_of(glob) {
        gsub(/[.+(){}^$|]/, "\\\\&", glob)
        gsub(/\*/, "[^/]*", glob)
        return "(^|/)" glob "(/|$|[.](c|def)$)"
    }

    # A path from the root or from the folder of the text, or the end of a path; programs have a source of their name.
    function has_file(path,    pattern, file) {
        sub(/^\.\//, "", path)
        sub(/\/$/, "", path)
        sub(/\.sif$/, ".def", path)
        while (sub(/^\.\.\//, "", path)) continue
        if (path in found) return found[path]
        pattern = pattern_of(path)
        found[path] = 0
        for (file in files)
            if (file ~ pattern) { found[path] = 1; break }
        return found[path]
    }

    # A target of a step or of a pair of steps may come from a pattern rule, so the steps must exist.
    function has_target(name,    digits) {
        if (name in targets) return 1
        if (name !~ /^((run-)?step[0-9]|diff[0-9][0-9])$/) return 0
        digits = name
        gsub(/[^0-9]/, "", digits)
        return has_file("0" substr(digits, 1, 1) "_*") && has_file("0" substr(digits, length(digits)) "_*")
    }

    function check(token, is_target,    parts, n, i) {
        if (token in others || token ~ /:\/\// || token ~ /^[~\/$]/ || token ~ /^(build|data|work)(\/|$)/) return
        if (token ~ /^--[a-z]/) {
            n = index(token, "=")
            if (n) check(substr(token, n + 1), 0)
            if (n) token = substr(token, 1, n - 1)
            if (!(token in options) && !(token in others)) report("option", token)
            return
        }
        if (token ~ /^[A-Za-z_]+=/) {
            n = index(token, "=")
            check(substr(token, 1, n - 1), 0)
            check(substr(token, n + 1), 0)
            return
        }
        sub(/:[0-9]+$/, "", token)
        if (token ~ /[A-Za-z]\// || token ~ /\.(c|h|cu|md|mk|sh|bats|bash|sbatch|pbs|def|py|yml)$/) {
            if (!has_file(token)) report("file", token)
            return
        }
        if (is_target) {
            if (!has_target(token)) report("target of make", token)
            return
        }
        n = split(token, parts, /[^A-Za-z0-9_]+/)
        for (i = 1; i <= n; i++)
            if (parts[i] ~ /^[A-Za-z_][A-Za-z0-9_][A-Za-z0-9_]+$/ && !(parts[i] in words) && !(parts[i] in others))
                report("name", parts[i])
    }

    # The words after make are targets, up to the next command or a variable whose value may have several words.
    function check_span(span,    tokens, n, i, make, quoted) {
        quoted = span ~ /"/
        gsub(/[][<>(){},;"\047]/, " ", span)
        n = split(span, tokens, /[ \t]+/)
        for (i = 1; i <= n; i++) {
            sub(/^\^/, "", tokens[i])
            sub(/[.:]+$/, "", tokens[i])
            if (quoted && tokens[i] ~ /=/ || tokens[i] ~ /^[&|]/) make = 0
            check(tokens[i], make && tokens[i] ~ /^[a-z]/)
            if (tokens[i] == "make") make = 1
        }
    }

    FILENAME == ARGV[1] {
        name = $2
        if ($1 == "file") files[name]
        if ($1 == "word") words[name]
        if ($1 == "option") options[name]
        if ($1 == "target") targets[name]
        if ($1 == "other") others[name]
        next
    }
    FNR == 1 { block = 0; open = 0 }
    /^ *```/ { block = !block; open = 0; next }
    block { next }
    /^ *$/ { open = 0 } # a span ends with its paragraph
    {
        n = split($0, part, "`")
        for (i = 1; i <= n; i++) {
            if (open) span = span part[i]
            if (i == n) break
            if (open) check_span(span)
            else { place = FILENAME ":" FNR; span = "" }
            open = !open
        }
        span = span " "
    }' "$@"
}

setup() {
    cd "$root" || return
    mapfile -t texts < <(find . \( -name .git -o -path ./build -o -path ./data -o -path ./work \) -prune -o -name '*.md' -print |
        sed 's|^\./||' | sort)
    [ ${#texts[@]} -gt 0 ]
    existing=$BATS_TEST_TMPDIR/existing
    what_exists >"$existing"
}

@test "every name between backticks in a text exists" {
    missing "$existing" "${texts[@]}" >"$BATS_TEST_TMPDIR/missing"
    cat "$BATS_TEST_TMPDIR/missing"
    [ ! -s "$BATS_TEST_TMPDIR/missing" ]
}

@test "a name that does not exist is reported with its file and line" {
    cd "$BATS_TEST_TMPDIR"
    cat >text.md <<'END'
`ncclAllReduce`, `t->gradients`, `--batch`, `train.c`, `common/`, `make help` and `make step1 DEVICE=cpu` exist;
`add_outgoing` does not,

nor do `t->no_member` and `--colour-of-loss=3`,
`common/nothing.h` and `no_such_file.c:12`, and
`make help
nothing-to-make step9`.
```
`not_looked_at`
```
END
    missing "$existing" text.md >found
    diff - found <<'END'
text.md:2: name add_outgoing does not exist
text.md:4: name no_member does not exist
text.md:4: option --colour-of-loss does not exist
text.md:5: file common/nothing.h does not exist
text.md:5: file no_such_file.c does not exist
text.md:6: target of make nothing-to-make does not exist
text.md:6: target of make step9 does not exist
END
}

@test "the workflow and the development container use only existing files and targets" {
    # shellcheck disable=SC2016 # the backticks are text
    {
        sed -nE 's/.*run: (.*)/`\1`/p' .github/workflows/test.yml
        sed -nE 's/^COPY (.*) [^ ]*$/`\1`/p; s/^RUN .*(tools.*\.sh .*) && rm.*/`\1`/p' .devcontainer/Dockerfile
        sed -nE 's/.*"dockerfile": "([^"]*)".*/`.devcontainer\/\1`/p; s/.*"postCreateCommand": "(.*)".*/`\1`/p' \
            .devcontainer/devcontainer.json
    } >"$BATS_TEST_TMPDIR/text.md"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/text.md")" = 8 ]
    missing "$existing" "$BATS_TEST_TMPDIR/text.md" >"$BATS_TEST_TMPDIR/missing"
    cat "$BATS_TEST_TMPDIR/missing"
    [ ! -s "$BATS_TEST_TMPDIR/missing" ]
}

@test "cpu_device/README.md lists each environment variable that the CPU device reads" {
    mapfile -t variables < <(grep -ohE '(getenv|cpu_positive_number)\("[A-Z_]+"' cpu_device/*.c | cut -d'"' -f2 | sort -u)
    [ ${#variables[@]} -gt 0 ]
    for variable in "${variables[@]}"; do
        grep -qE "^\\| \`$variable\` \\| .* \\|$" cpu_device/README.md ||
            { echo "cpu_device/README.md lacks $variable" && return 1; }
    done
}
