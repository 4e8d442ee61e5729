#!/usr/bin/env bats
# Tests of the notebook of docs/where.md: its commands are those of the texts, which readmes.bats runs.
load ../helpers

@test "the notebook has only commands of the texts, and no outputs" {
    command -v python3 >/dev/null || skip "python3 is not installed"
    python3 -B - "$root" <<'END'
import json
import sys

root = sys.argv[1]
with open(root + "/docs/course.ipynb", encoding="utf-8") as file:
    cells = [cell for cell in json.load(file)["cells"] if cell["cell_type"] == "code"]
text = "".join(open(root + name, encoding="utf-8").read() for name in ("/docs/where.md", "/README.md"))
commands = [line.lstrip("!%") for cell in cells for line in "".join(cell["source"]).split("\n") if "make " in line]
assert commands and not any(cell["outputs"] for cell in cells)
for command in commands:
    assert f"\n{command}\n" in text or f"`{command}`" in text, f"no text has: {command}"
END
}
