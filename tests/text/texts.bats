#!/usr/bin/env bats
# Tests of what the texts name: texts.py reads all of them once, and finds links, names, options, targets of make and terms that
# do not exist. other_names.txt lists names of other programs. Tables of variables are also checked here.
# shellcheck disable=SC2016,SC2154 # Markdown's backticks; helpers.bash sets root
load ../helpers

setup() {
    cd "$root" || return
    command -v python3 >/dev/null || skip "python3 is not installed"
}

@test "each link, name, option and target of make in a text exists, and the glossary has each term" {
    python3 -B tests/text/texts.py
}

@test "each kind of fault is reported with its file and line" {
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree"
    cat >docs/bad.md <<'END'
[1](nothing.md), [2](where.md#no-heading), [3](../../outside.md), [4](htp://example.org) and ![](figures/ring.svg)
`t->no_member`, `--colour-of-loss=3`, `common/nothing.h` and `make nothing-to-make diff10`

<!-- = 1 + 1 -->2<!-- end --> <details><summary>a fold</summary>
```
make nothing-to-do
04_multinode/trian
```
END
    run python3 -B tests/text/texts.py docs/bad.md
    [ "$status" = 1 ]
    diff - <(sort <<<"$output") <<'END'
docs/bad.md:1: ../../outside.md is no file of a clone
docs/bad.md:1: figures/ring.svg needs a text that describes the picture
docs/bad.md:1: htp://example.org is no address
docs/bad.md:1: nothing.md is no file of a clone
docs/bad.md:1: where.md#no-heading has no such heading
docs/bad.md:2: file common/nothing.h does not exist
docs/bad.md:2: name no_member does not exist
docs/bad.md:2: option --colour-of-loss does not exist
docs/bad.md:2: target of make diff10 does not exist
docs/bad.md:2: target of make nothing-to-make does not exist
docs/bad.md:4: a value at the beginning of a line ends the paragraph
docs/bad.md:4: wants an empty line behind it, or GitHub shows no Markdown
docs/bad.md:6: target of make nothing-to-do does not exist
docs/bad.md:7: file 04_multinode/trian does not exist
END
}

@test "the workflows and the development container use only existing files and targets" {
    {
        sed -nE 's/.*run: (.*)/`\1`/p' .github/workflows/*.yml
        sed -nE 's/^COPY (.*) [^ ]*$/`\1`/p; s/^RUN .*(tools.*\.sh .*) && rm.*/`\1`/p' .devcontainer/Dockerfile
        sed -nE 's/.*"dockerfile": "([^"]*)".*/`.devcontainer\/\1`/p; s/.*"postCreateCommand": "(.*)".*/`\1`/p' \
            .devcontainer/devcontainer.json
    } >"$BATS_TEST_TMPDIR/text.md"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/text.md")" = 10 ]
    python3 -B tests/text/texts.py "$BATS_TEST_TMPDIR/text.md"
}

@test "the tables of variables are complete: those of the CPU device, and those of NCCL that it reads" {
    cd "$BATS_TEST_TMPDIR"
    grep -ohE '(getenv|cpu_positive_number)\("[A-Z_]+"' "$root"/cpu_device/src/*.c | cut -d'"' -f2 | sort -u >variables
    grep -ohE '^\| `[A-Z_]+` \|' "$root/cpu_device/README.md" | cut -d'`' -f2 | sort >listed
    [ "$(wc -l <variables)" -gt 0 ]
    [ "$(comm -23 variables listed)" = "" ]
    sed -n '/on the CPU device |$/,/^$/p' "$root/docs/nccl.md" | grep -oE '^\| `NCCL_[A-Z_]+`' | cut -d'`' -f2 | sort |
        diff <(grep ^NCCL_ variables) -
}
