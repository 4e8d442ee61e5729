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
    mkdir build
    touch build/b.svg
    printf '%s\n' '# Step 3: `a_name`, and *more*' '## Twice' '## Twice' '```' '# no heading' '```' >other.md
    cat >docs/good.md <<'END'
[1](../other.md#step-3-a_name-and-more), [2](../other.md#twice-1), [two
lines](good.md), [a folder](../docs), [![a picture](figures/ring.svg)](https://a.example.org/x_(y)?q=1#z),
`ncclAllReduce`, `t->gradients`, `--batch`, `train.c`, `common/`, `make help` and
`make step1 DEVICE=cpu` exist.
```
[code](nothing.md) `not_looked_at`
make step1 && make run-step2
```
END
    cat >docs/bad.md <<'END'
[1](nothing.md), [2](../other.md#no-heading) and [3](../other.md#twice-2)
[4](#missing), [5](../Makefile#L1), [6](../../outside.md), [7](../build/b.svg) and [8]()
![](figures/ring.svg) and [![a picture](b.svg)](https:/example.org)
[9](htp://example.org) and [10](https://https://example.org)
`add_outgoing`, `t->no_member` and `--colour-of-loss=3`

`common/nothing.h`, `no_such_file.c:12` and `make help
nothing-to-make step0 diff10`
<!-- = 1 + 1 -->2<!-- end --> <details><summary>a fold</summary>
```
make nothing-to-do ARGS="--colour-of-loss"
04_multinode/trian
```
END
    run python3 -B tests/text/texts.py docs/good.md docs/bad.md
    [ "$status" = 1 ]
    diff - <(sort <<<"$output") <<'END'
docs/bad.md:11: option --colour-of-loss does not exist
docs/bad.md:11: target of make nothing-to-do does not exist
docs/bad.md:12: file 04_multinode/trian does not exist
docs/bad.md:1: ../other.md#no-heading has no such heading
docs/bad.md:1: ../other.md#twice-2 has no such heading
docs/bad.md:1: nothing.md is no file of a clone
docs/bad.md:2:  is no file of a clone
docs/bad.md:2: #missing has no such heading
docs/bad.md:2: ../../outside.md is no file of a clone
docs/bad.md:2: ../Makefile#L1 has no such heading
docs/bad.md:2: ../build/b.svg is no file of a clone
docs/bad.md:3: b.svg is no file of a clone
docs/bad.md:3: figures/ring.svg needs a text that describes the picture
docs/bad.md:3: https:/example.org is no address
docs/bad.md:4: htp://example.org is no address
docs/bad.md:4: https://https://example.org is no address
docs/bad.md:5: name add_outgoing does not exist
docs/bad.md:5: name no_member does not exist
docs/bad.md:5: option --colour-of-loss does not exist
docs/bad.md:7: file common/nothing.h does not exist
docs/bad.md:7: file no_such_file.c does not exist
docs/bad.md:7: target of make diff10 does not exist
docs/bad.md:7: target of make nothing-to-make does not exist
docs/bad.md:7: target of make step0 does not exist
docs/bad.md:9: a value at the beginning of a line ends the paragraph
docs/bad.md:9: wants an empty line behind it, or GitHub shows no Markdown
END
}

@test "a term without an entry in the glossary, and an entry with a wrong link, are found" {
    local change wanted
    copy_tree "$BATS_TEST_TMPDIR/tree"
    cd "$BATS_TEST_TMPDIR/tree"
    while IFS='@' read -r change wanted; do
        sed -E "$change" "$root/docs/glossary.md" >docs/glossary.md
        run python3 -B tests/text/texts.py docs/glossary.md
        [[ $status = 1 && $output == *"$wanted"* ]] || { printf '%s\n' "wanted: $wanted" "$output" && return 1; }
    done <<'END'
/^- \*\*event/d@event: 02_multigpu_fork/README.md explains it, not an entry
s/(\*\*event\*\* .\[step )2(.*)02_multigpu_fork/\13\203_multigpu_launcher/@event: 02_multigpu_fork/README.md explains it, not 03
s/(\*\*event\*\* .\[step )2/\13/@event: step 3 is not 02_multigpu_fork/README.md
s/\*\*node\*\*/**nodule**/@README.md does not use nodule
s/^(- \*\*kernel\*\*) .*:/\1:/@another form
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
