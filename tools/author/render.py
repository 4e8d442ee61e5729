#!/usr/bin/env python3
"""Fills the marked blocks of the Markdown files with what the repository contains now, so that no text differs from the
code. A block begins with one of these comments and ends with <!-- end -->:

    <!-- code 02_multigpu_fork/train.c sum_layer -->              a function, struct or table of a C file
    <!-- code slurm/step4.sbatch from "#SBATCH" to "--time" -->   the lines of a file from the first that contains "#SBATCH"
                                                                  to the next that contains "--time"
    <!-- diff 12 backward -->                                     what step 2 changes in this function of step 1
    <!-- computed tools/on_paper.py ways -->                      what a command of the repository prints, as Markdown
    <!-- = mlp_parameters(784, 512, 512, 10) -->669,706<!-- end --> the value of an expression, within a line; it may use
                                                                  the functions of tools/formulas.py, table(FILE), and
                                                                  message(NAME), a message of exercises/messages.h

Each from ... to ... selects lines of a function or of a difference, too; without to, the selection goes on to the end.
Several of them are joined by a line of three dots. In the slides, the comment of a block stands alone: tools/author/slides.py puts
the lines after it when it makes the slides. FILE... are the texts to fill (by default all of the repository)."""
import argparse
import csv
import os
import re
import shlex
import subprocess
import sys
import textwrap

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # tools/
import files  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BEGIN = re.compile(r"^( *)<!-- (code|diff|computed) (.*?) *-->$")
END = "<!-- end -->"
VALUE = re.compile(r"<!-- = (.*?) -->(.*?)<!-- end -->")
LANGUAGES = {".c": "c", ".h": "c", ".cu": "cpp", ".sh": "bash", ".sbatch": "bash", ".pbs": "bash", ".py": "python",
             ".mk": "makefile"}


SLIDES = os.path.join("docs", "slides")


class Unknown(Exception):
    """A block names something that does not exist."""


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Unknown(f"{path}: {error.strerror}") from None


def definition(path, name):
    """The lines of the function, struct or table of that name, without the comment above it."""
    lines = read(path).splitlines()
    for i, line in enumerate(lines):
        # The name of int f(void), of struct s { and of options[] = { stands before the first of these characters.
        before = re.split(r" *[\[({=]", line)[0]
        if re.match(r"[a-z_]", line) and not line.endswith(";") and re.search(rf"(?<!\w){re.escape(name)}$", before):
            end = next((j for j in range(i, len(lines)) if lines[j].startswith("}")), None)
            if end is not None:
                return lines[i:end + 1]
    raise Unknown(f"{path} has no function, struct or table {name}")


def difference(pair, name):
    """The lines of make diffNM F=name, without the place and the comment above the function."""
    if not re.fullmatch(r"[0-9][0-9]", pair):
        raise Unknown(f"{pair}: want the numbers of two steps, such as 12")
    run = subprocess.run(["tools/diff_steps.sh", *pair], cwd=ROOT, env={**os.environ, "F": name, "NO_COLOR": "1"},
                         capture_output=True, text=True)
    if run.returncode:
        raise Unknown(run.stderr.strip())
    lines = [line for line in run.stdout.splitlines() if not line.startswith("@@")]
    while lines and lines[0][1:].startswith("//"):
        lines.pop(0)
    if not lines:
        raise Unknown(f"diff {pair}: both steps have the same {name}")
    return lines


def selected(lines, words, what):
    """The lines between the texts of the words from TEXT to TEXT ..., joined by a line of dots."""
    parts, after = [], 0
    while words:
        if words[0] != "from" or len(words) < 2:
            raise Unknown(f'{what}: want from "TEXT" to "TEXT", not {shlex.join(words)}')
        begin, words = words[1], words[2:]
        end = None
        if words[:1] == ["to"] and len(words) > 1:
            end, words = words[1], words[2:]
        first = next((i for i in range(after, len(lines)) if begin in lines[i]), None)
        if first is None:
            raise Unknown(f'{what} has no line with "{begin}"' + (" after the lines before" if after else ""))
        last = len(lines) - 1
        if end is not None:
            last = next((i for i in range(first, len(lines)) if end in lines[i]), None)
            if last is None:
                raise Unknown(f'{what} has no line with "{end}" after "{begin}"')
        after = last + 1
        parts.append(lines[first:after])
    return parts or [lines]


def dedented(parts, marks=False):
    """Joins the parts, and removes the indentation that all lines share, in a difference behind the + and -."""
    lines = []
    for part in parts:
        if lines:
            indent = re.match(r" *", part[0][marks:])[0]
            lines.append(" " * marks + indent + "...")
        lines += part
    if not marks:
        return textwrap.dedent("\n".join(lines)).splitlines()
    bodies = textwrap.dedent("\n".join(line[1:] for line in lines)).split("\n")
    return [(line[:1] + " " + body).rstrip() for line, body in zip(lines, bodies)]


def code_block(words):
    path, words = words[0], words[1:]
    if words and words[0] != "from":
        lines, what, words = definition(path, words[0]), f"{words[0]} in {path}", words[1:]
    else:
        lines, what = read(path).splitlines(), path
    language = LANGUAGES.get(os.path.splitext(path)[1], "makefile" if path.endswith("Makefile") else "")
    return ["```" + language, *dedented(selected(lines, words, what)), "```"]


def diff_block(words):
    if len(words) < 2:
        raise Unknown("want diff NM FUNCTION")
    parts = selected(difference(*words[:2]), words[2:], f"diff {words[0]} of {words[1]}")
    return ["```diff", *dedented(parts, marks=True), "```"]


def computed_block(words):
    run = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    if run.returncode or not run.stdout.strip():
        raise Unknown(f"{shlex.join(words)}: {run.stderr.strip() or 'prints nothing'}")
    return run.stdout.strip("\n").splitlines()


BLOCKS = {"code": code_block, "diff": diff_block, "computed": computed_block}


def table(path):
    """The rows of a CSV file, as dictionaries."""
    return list(csv.DictReader(read(path).splitlines()))


def message(name):
    """The message of this name, as code."""
    found = re.search(rf'^#define {name} "(.*)"$', read("exercises/messages.h"), re.MULTILINE)
    if not found:
        raise Unknown("exercises/messages.h has no message of this name")
    return f"`{found[1]}`"


def value(expression):
    """The value as text. A whole number has commas: 669,706."""
    import formulas
    names = {name: getattr(formulas, name) for name in dir(formulas) if not name.startswith("_")}
    try:
        result = eval(expression, {"table": table, "message": message, **names})  # the texts are part of the repository, like its programs
    except Exception as error:
        raise Unknown(f"{expression}: {error}") from None
    return f"{result:,}" if isinstance(result, int) else str(result)


def filled(text, report, blocks="between"):
    """The text with its values, and with the lines of its blocks between their comments and the ends, behind comments that
    stand alone ("behind"), or left out ("none"). Calls report(line number, problem)."""
    lines, result, at, fence = text.split("\n"), [], 0, False
    while at < len(lines):
        line = lines[at]
        if line.lstrip().startswith("```"):
            fence = not fence
        match = None if fence or blocks == "none" else BEGIN.match(line)
        if not match:
            if not fence:
                def replace(found, number=at + 1):
                    try:
                        return f"<!-- = {found[1]} -->{value(found[1])}{END}"
                    except Unknown as error:
                        report(number, error)
                        return found[0]
                line = VALUE.sub(replace, line)
                if line.strip() == END:
                    report(at + 1, f"{END} without a beginning")
            result.append(line)
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == END), None) if blocks == "between" else at
        if end is None or any(BEGIN.match(inner) for inner in lines[at + 1:end]):
            report(at + 1, f"no {END} ends this block")
            return text
        try:
            block = BLOCKS[match[2]](shlex.split(match[3]))
            result += [line, *((match[1] + row).rstrip() for row in block), *lines[end:end + (end > at)]]
        except Unknown as error:
            report(at + 1, error)
            result += lines[at:end + 1]
        at = end + 1
    return "\n".join(result)


def texts():
    """The Markdown files of the repository."""
    found = []
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if not f.startswith(".git") and not os.path.islink(os.path.join(folder, f))
                            and os.path.join(folder, f) not in (os.path.join(ROOT, x) for x in ("build", "data", "work")))
        found += [os.path.relpath(os.path.join(folder, f), ROOT) for f in sorted(names) if f.endswith(".md")]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; report blocks that are out of date")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    problems = 0
    for path in [os.path.relpath(f, ROOT) for f in options.files] or texts():
        def report(number, problem, path=path):
            nonlocal problems
            problems += 1
            print(f"error: {path}:{number}: {problem}", file=sys.stderr)
        old = read(path)
        new = filled(old, report, "none" if path.startswith(SLIDES + os.sep) else "between")
        if new == old:
            continue
        if options.check:
            number = next(i for i, (a, b) in enumerate(zip(old.split("\n"), new.split("\n") + [None]), 1) if a != b)
            report(number, "is not what the repository contains now; run make docs")
        else:
            files.write(os.path.join(ROOT, path), new)
            print(f"filled {path}")
    return problems > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Unknown as error:
        sys.exit(f"error: {error}")
