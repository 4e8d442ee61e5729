#!/usr/bin/env bats
# Tests of the notebook of docs/where.md: its commands are those of the texts, which readmes.bats runs.
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
