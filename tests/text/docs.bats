#!/usr/bin/env bats
# Tests of the texts that are made from the repository: tools/author/render.py fills their marked blocks and finds nothing to
# change, tools/author/record.py compares what they quote, and tools/author/reading.sh lists what readers read. They report what
# is stale or unknown.
load ../helpers
needs=(python3)
render=$root/tools/author/render.py record=$root/tools/author/record.py
unset DEVICE

@test "every marked block holds what the repository contains now" {
    "$render" --check
    [ "$(grep -rlE '^ *<!-- (code|diff|computed) ' "$root"/{README.md,0*,docs} --include='*.md' | wc -l)" -gt 0 ]
}

@test "a block follows its source, also in a list and a value in a slide, and a stale one is reported" {
    copy_tree tree
    cd tree
    printf '%s\n' '- In a list:' '  <!-- code 01_single_gpu/short.c f from "if" to "}" from "return" to "return" -->' '  old' \
        '  <!-- end -->' >docs/text.md
    printf '%s\n' '<!-- code 01_single_gpu/short.c f -->' '```' 'It has <!-- = 1000 * 7 -->6<!-- end -->.' '```' >docs/slides/text.md
    printf '%s\n' 'int f(int a) {' '    if (a) {' '        g();' '    }' '    h();' '    return a;' '}' >01_single_gpu/short.c
    tools/author/render.py docs/text.md docs/slides/text.md
    [ "$(sed -n 3,9p docs/text.md)" = "$(printf '  %s\n' '```c' 'if (a) {' '    g();' '}' ... 'return a;' '```')" ]
    [ "$(cat docs/slides/text.md)" = "$(printf '%s\n' '<!-- code 01_single_gpu/short.c f -->' '```' \
        'It has <!-- = 1000 * 7 -->6<!-- end -->.' '```')" ] # Marp fills the blocks of slides
    tools/author/render.py --check docs/text.md
    sed -i 's/return a/return b/' 01_single_gpu/short.c # the source goes on, and the text stays
    run tools/author/render.py --check docs/text.md
    [ "$status" = 1 ]
    [ "$output" = "error: docs/text.md:8: is not what the repository contains now; run make docs" ]
}

@test "a quote agrees with other times and names of machines, and with nothing else" {
    while IFS='@' read -r printed quoted verdict; do
        printf '%s\n' '```' "printf '%b\\n' '$printed'" '```' '' '```output' "$(printf '%b' "$quoted")" '```' >text.md
        run "$record" --here --check text.md
        [ "$status" = "$verdict" ] || { printf '%s\n' "wanted $verdict for:" "$printed" "$quoted" "$output" && return 1; }
    done <<'END'
1\n2\n3@1\n2\n3@0
1\n2\n3@1\n3@1
launch: starts\n1@1@0
launch: starts\n1@launch: ends\n1@1
epoch 1/3  loss 0.2449  accuracy 96.81%  13.32 s  4498 images/s@epoch 1/3  loss 0.2447  accuracy 96.82%  0.96 s  62611 images/s@0
epoch 1/3  loss 0.2449  accuracy 96.81%  13.32 s@epoch 1/3  loss 0.2449  accuracy 97.41%  13.32 s@1
20,4.16046187@20,4.16046221@0
20,4.16046187@20,4.09950204@1
device    0: CPU device (EPYC, 2 cores), 6.3 GB@device    0: CPU device (Xeon, 8 cores), 31.1 GB@0
(step 101, collective 303, ncclAllReduce)@(step 86, collective 257, ncclAllReduce)@0
   ring  0  1306.3  6000024@   ring  0   999.1  6000024@0
modelled times\nrank 3 waits 1.160 ms@modelled times\nrank 3 waits 1.155 ms@1
modelled times\n   ring  0  91.4  6000024@modelled times\n   ring  0  92.4  6000024@1
END
}

@test "the reading lists name files and functions that exist, and the READMEs show them" {
    cp -r "$root"/0*_* "$root"/{common,tools,watch,zoo} .
    run --separate-stderr tools/author/reading.sh
    [ -z "$(sed '/the limit is\|has at most/d' <<<"$stderr")" ] # make style prints these
    run tools/author/reading.sh
    [ "$(grep -c '^ *[1-9] ' <<<"$output")" = 9 ]
    # Step 2 lists files of its folder only. Each line of these is one to read, or one to skip.
    [ "$(awk '$1 == 2 { print $2 + $4 }' <<<"$output")" = "$(cat 02_*/[!t]*.[ch] | wc -l)" ]
    tools/author/reading.sh --write # run it after a change of a list
    for readme in 0*_*/README.md; do
        diff "$root/$readme" "$readme"
    done
}
