#!/usr/bin/env bats
# Tests of tests/text/links.py, which finds dead links: those of all texts work, and each kind of fault is reported.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

setup() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    links=$root/tests/text/links.py
}

@test "every link of a text leads to a file and a heading, and every image has an alternative text" {
    cd "$root"
    run --separate-stderr python3 -B "$links"
    [ "$status" = 0 ] || { echo "$output" && return 1; }
    [ "${stderr% links}" -gt 0 ] || { echo "found none" && return 1; }
}

@test "each kind of dead or faulty link is reported with its file and line" {
    cd "$BATS_TEST_TMPDIR"
    mkdir -p docs build
    echo '<svg/>' | tee docs/a.svg build/b.svg >docs/c.py
    cat >other.md <<'END'
# Step 3: `a_name`, and *more*
## Twice
## Twice
```
# no heading
```
END
    cat >docs/good.md <<'END'
[1](../other.md#step-3-a_name-and-more), [2](../other.md#twice-1) and [two
lines](good.md) and [a folder](../docs) and [![a picture](a.svg)](https://a.example.org/x_(y)?q=1#z).
`[code](nothing.md)` and <img src="a.svg" alt="a picture"> and ![bg right:40% a picture](a.svg "a title")
https://ui.perfetto.dev, <https://example.org/~me> and [a label][label]
```
[code](nothing.md)
```
[label]: https://example.org
END
    python3 -B "$links" docs/good.md
    cat >docs/bad.md <<'END'
[1](nothing.md) and [2](../other.md#no-heading) and
[3](../other.md#twice-2), [4](#missing), [5](c.py#L1) and [6](../../outside.md).

![](a.svg), ![bg w:300](a.svg), ![a picture](b.svg), ![a picture](../build/b.svg)
<a href="nothing.md">8</a> <img src="a.svg">
[9](https:/example.org), [10](https://example), [11](htp://example.org), [12]()
See https://https://example.org and https://example.org/ä.
[13]: nothing.c
END
    run --separate-stderr python3 -B "$links" docs/bad.md
    [ "$status" = 1 ]
    [ "$(grep -c alternative <<<"$output")" = 3 ]
    sort -u <<<"$output" >found
    sort <<'END' | diff found -
docs/bad.md:1: nothing.md does not exist
docs/bad.md:1: ../other.md#no-heading has no such heading
docs/bad.md:2: ../other.md#twice-2 has no such heading
docs/bad.md:2: #missing has no such heading
docs/bad.md:2: c.py#L1 has no such heading
docs/bad.md:2: ../../outside.md leads out of the repository
docs/bad.md:4: a.svg is an image without an alternative text
docs/bad.md:4: b.svg does not exist
docs/bad.md:4: ../build/b.svg is no file of a fresh clone
docs/bad.md:5: nothing.md does not exist
docs/bad.md:5: a.svg is an image without an alternative text
docs/bad.md:6: https:/example.org has no valid host
docs/bad.md:6: https://example has no valid host
docs/bad.md:6: htp://example.org has an unknown scheme
docs/bad.md:6:  is empty
docs/bad.md:7: https://https://example.org has no valid host
docs/bad.md:7: https://example.org/ä has a path with a forbidden character
docs/bad.md:8: nothing.c does not exist
END
}
