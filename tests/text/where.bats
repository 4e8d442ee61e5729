#!/usr/bin/env bats
# Tests of docs/where.md and of its notebook: its commands are those of the text, and they run in a
# fresh clone, on small models.
# shellcheck disable=SC2154 # helpers.bash sets root
load ../helpers

setup() {
    command -v python3 >/dev/null || skip "python3 is not installed"
    notebook=$root/docs/course.ipynb
}

# Prints the code cells as one shell script. A cell of bash runs in a shell of its own. No cell may hold an output.
cells() {
    python3 -B - "$notebook" <<'END'
import json
import re
import sys

with open(sys.argv[1], encoding='utf-8') as file:
    book = json.load(file)
assert book['nbformat'] == 4 and len({cell['id'] for cell in book['cells']}) == len(book['cells'])
for cell in book['cells']:
    lines = ''.join(cell['source']).split('\n')
    if cell['cell_type'] != 'code':
        continue
    assert cell['execution_count'] is None and cell['outputs'] == [], f'{cell["id"]} has run'
    if lines[0] == '%%bash':
        lines = ['('] + lines[1:] + [')']
    for line in lines:
        print(re.sub('^[!%]', '', line.replace('%env ', 'export ')))
END
}

@test "the notebook is valid, and has only commands of the texts" {
    cd "$BATS_TEST_TMPDIR"
    cells >script
    count=0
    while IFS= read -r command; do
        grep -qxF -- "$command" "$root/docs/where.md" "$root/README.md" || grep -qF -- "\`$command\`" "$root/README.md" ||
            { echo "no text has: $command" && return 1; }
        count=$((count + 1))
    done < <(grep 'make ' script)
    [ $count -gt 0 ]
}

@test "the cells of the notebook run in a fresh clone" {
    command -v git >/dev/null || skip "git is not installed"
    cd "$BATS_TEST_TMPDIR"
    unset MAKEFLAGS MFLAGS MAKELEVEL DEVICE CC CFLAGS BUILD MNIST_MIRROR
    unset_job
    export NCCL_SOCKET_IFNAME=lo
    copy_tree tree
    git -C tree init -q
    git -C tree add -A
    git -C tree -c user.name=test -c user.email=test@example.org commit -qm test
    # Nothing is installed or downloaded, so the images are synthetic, or those of Debian's package if it is installed. The models
    # are small.
    local images='these images are synthetic'
    [ ! -d /usr/share/datasets/fashion-mnist ] || images='Fashion-MNIST (clothes'
    mkdir bin
    printf '#!/bin/sh\nexit 1\n' | tee bin/apt-get bin/sudo bin/curl bin/wget bin/nvidia-smi >/dev/null
    make=$(command -v make)
    cat >bin/make <<END
#!/bin/bash
words=()
for word; do
    [[ \$word != ARGS=* ]] || small=1 word+=' --hidden 8 --max-steps 2'
    words+=("\$word")
done
[ -n "\${small:-}" ] || words+=(ARGS='--hidden 8 --max-steps 4')
exec "$make" DEVICE=cpu "\${words[@]}"
END
    chmod +x bin/*
    cells | sed "s|^export ADDRESS=.*|export ADDRESS=file://$PWD/tree|" >script
    sed -i -E 's/^make (doctor|exercise)$/& || true/' script # the doctor may find faults of this machine
    PATH=$PWD/bin:$PATH timeout "$(patience 300)" bash -e -o pipefail script >out 2>&1 </dev/null || { tail -n 30 out && return 1; }
    for text in "$images" 'What can run here' 'ranks     global batch 128 = 2 ranks x 64' \
        'sharding  each rank keeps' 'Times of the streams in ms, modelled h100' '+        NCCL_CHECK(ncclAllReduce' 'Your file: work/'; do
        grep -qF -- "$text" out || { echo "wanted: $text" && cat out && return 1; }
    done
}
