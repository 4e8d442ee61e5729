#!/usr/bin/env bats
# Tests of what the texts name: texts.py reads all of them once, and finds links, names, options and targets of make that
# do not exist. other_names.txt lists names of other programs.
load ../helpers
needs=(python3)
begin_in=$root

@test "each link, name, option and target of make in a text exists" {
    python3 -B tests/text/texts.py
}

@test "the workflows and the development container use only existing files and targets" {
    {
        sed -nE 's/.*run: (.*)/`\1`/p' .github/workflows/*.yml
        sed -nE 's/^COPY (.*) [^ ]*$/`\1`/p; s/^RUN .*(tools.*\.sh .*) && rm.*/`\1`/p' .devcontainer/Dockerfile
        sed -nE 's/.*"dockerfile": "([^"]*)".*/`.devcontainer\/\1`/p; s/.*"postCreateCommand": "(.*)".*/`\1`/p' \
            .devcontainer/devcontainer.json
    } >"$BATS_TEST_TMPDIR/text.md"
    [ "$(wc -l <"$BATS_TEST_TMPDIR/text.md")" = 15 ]
    python3 -B tests/text/texts.py "$BATS_TEST_TMPDIR/text.md"
    run ! grep -hP 'uses: (?!.*@[0-9a-f]{40} # v)' .github/workflows/*.yml # a tag may move, a commit does not
}

@test "the programs, the changes and the citation have the same version" {
    need_train
    version=$(sed -n 's/^version: "\(.*\)"$/\1/p' CITATION.cff)
    [ "$("$TRAIN" --version)" = "$(sed -n 's/^title: //p' CITATION.cff) $version" ]
    [[ $(grep -m 1 '^## ' CHANGELOG.md) == "## $version ("* ]]
}

# Other tests run the commands of the texts.
@test "the notebook has only commands of the texts, and no outputs" {
    python3 -B - <<'END'
import json

with open("docs/course.ipynb", encoding="utf-8") as file:
    cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
text = "".join(open(name, encoding="utf-8").read() for name in ("docs/where.md", "README.md"))
commands = [line.lstrip("!%") for cell in cells for line in "".join(cell["source"]).split("\n") if "make " in line]
assert commands and not any(cell["outputs"] for cell in cells)
for command in commands:
    assert f"\n{command}\n" in text or f"`{command}`" in text, f"no text has: {command}"
END
}
