#!/usr/bin/env python3
"""texts.py [FILE...]: reads the Markdown files of the repository, and prints what does not exist: files and headings of links,
names and options between backticks, and targets of make. Fenced blocks are read for programs, options and targets of make only. It
runs in the root of the repository."""
import os
import re
import subprocess
import sys
import urllib.parse

NOT_OURS = {".git", "build", "data", "work"}  # at the root: no part of a clone
ITSELF = "tests/text/"  # these files hold names that do not exist
FENCED = re.compile(r"^( *)(```+)[^\n`]*\n(.*?)^ *\2 *$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`((?:(?!\n\s*\n)[^`])+)`")  # a span ends with its paragraph
COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
LINK = re.compile(r"(!?)\[((?:[^\[\]]|!\[[^\[\]]*\]\([^()\s]*\))*)\]\(([^\s()]*(?:\([^\s()]*\)[^\s()]*)*)\)")
ADDRESS = re.compile(r"https?://[a-z0-9-]+(\.[a-z0-9-]+)*(:\d+)?(/(?!/)[\w\-./~%!$&'()*+,;=:@?#]*)?$", re.IGNORECASE)
SUFFIX = re.compile(r"\.(c|h|cu|md|mk|sh|bats|bash|sbatch|pbs|def|py|yml)$")


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def all_files():
    for folder, folders, names in os.walk("."):
        folders[:] = [name for name in folders if folder != "." or name not in NOT_OURS]
        yield from (os.path.relpath(os.path.join(folder, name)) for name in names)


def blank(match):
    """Spaces instead of the text, so that the numbers of the lines stay."""
    return re.sub(r"[^\n]", " ", match[0])


def anchors(text):
    """The anchors of the headings, by GitHub's rules: lower case without punctuation; -1, -2 if repeated."""
    found = set()
    for heading in re.findall(r"^#{1,6} +(.*?) *$", FENCED.sub(blank, text), re.MULTILINE):
        heading = LINK.sub(r"\2", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        found.add(next(each for each in [name, *(f"{name}-{n}" for n in range(1, 99))] if each not in found))
    return found


class Repository:
    """All that a text may name."""

    def __init__(self):
        self.files = sorted(all_files())
        sources = [read(path) for path in self.files
                   if not path.endswith((".md", ".svg", ".json")) and not path.startswith(ITSELF)]
        text = "\n".join(sources)
        self.words = set(re.findall(r"[A-Za-z_]\w*", text))
        self.options = set(re.findall(r"--[a-z][a-z0-9-]*", text))
        self.options |= {"--" + name for name in re.findall(r'"([a-z0-9-]+)", *OPTION_', text)}
        others = read("tests/text/other_names.txt")
        self.others = set(re.sub(r"^#.*", "", others, flags=re.MULTILINE).split())
        make = "".join(subprocess.run(["make", "-C", folder, "-qpRr", "DEVICE=cpu", "help"], capture_output=True, text=True,
                                      check=False).stdout for folder in (".", "cpu_device"))
        self.targets = set(re.findall(r"^([a-zA-Z][\w-]*):", make, re.MULTILINE))
        self.known = {}

    def has_file(self, path):
        """A path from the root or from the folder of the text, or the end of a path; programs have a source of their name."""
        path = re.sub(r"^(\.\.?/)+|/$", "", path).replace(".sif", ".def")
        if path not in self.known:
            glob = re.escape(path).replace(r"\*", "[^/]*")
            pattern = re.compile(rf"(^|/){glob}(/|$|\.(c|def)$)")
            self.known[path] = any(map(pattern.search, self.files))
        return self.known[path]

    def has_target(self, name):
        """Targets of a step or of a pair of steps may come from a pattern rule, so the steps must exist."""
        steps = re.fullmatch(r"(?:(?:run-|trace-|profile-)?step|diff)(\d)(\d?)", name)
        return name in self.targets or bool(steps) and all(self.has_file(f"0{n}_*") for n in filter(None, steps.groups()))

    def missing_in(self, span):
        """What the words of a span name and the repository does not have. The words after make are targets, up to the next
        command or a variable whose value may have several words."""
        is_target, quoted = False, '"' in span
        for token in re.sub(r"[][<>(){},;\"']", " ", span).split():
            token = re.sub(r"^\^|[.:]+$", "", token)
            if quoted and "=" in token or token[:1] in ("&", "|"):
                is_target = False
            yield from self.missing(token, is_target and token[:1].islower())
            is_target = is_target and token != "compare" or token == "make"  # make compare has files after it

    def missing(self, token, is_target=False):
        if token in self.others or re.search(r"://|^[~/$]|^(build|data|work)(/|$)", token):
            return
        name, equal, value = token.partition("=")
        if equal and re.fullmatch(r"--[a-z][\w-]*|[A-Za-z_]+", name):
            yield from self.missing(name)
            yield from self.missing(value)
        elif re.match(r"--[a-z]", token):
            if token not in self.options:
                yield f"option {token}"
        elif re.search(r"[A-Za-z]/", token) or SUFFIX.search(re.sub(r":\d+$", "", token)):
            path = re.sub(r":\d+$", "", token)
            if not self.has_file(path):
                yield f"file {path}"
        elif is_target:
            if not self.has_target(token):
                yield f"target of make {token}"
        else:
            yield from (f"name {part}" for part in re.findall(r"(?<!\w)[A-Za-z_]\w{2,}", token)
                        if not {part, part.rstrip("_")} & (self.words | self.others))


def fault_of(path, target):
    """What is wrong with this target of a link in the file, or None."""
    if ":" in target:
        return None if ADDRESS.match(target) else "is no address"
    name, mark, anchor = target.partition("#")
    name = os.path.normpath(os.path.join(os.path.dirname(path), urllib.parse.unquote(name))) if name else path
    if not target or name.startswith("..") or name.split(os.sep)[0] in NOT_OURS or not os.path.exists(name):
        return "is no file of a clone"
    if mark and not (name.endswith(".md") and anchor in anchors(read(name))) and not name.startswith("docs/figures/"):
        return "has no such heading"
    return None


def faults_of(path, repository):
    """Yields the place and the description of each fault in the text."""
    text = read(path)
    for block in FENCED.finditer(text):
        for command in re.finditer(r"^ *(make [^#|<>\n]*)", block[3], re.MULTILINE):
            for missing in repository.missing_in(re.split(r"&&|;", command[1])[0]):
                if missing.startswith("target"):
                    yield block.start(3) + command.start(), f"{missing} does not exist"
        for word in re.finditer(r"(?<=[\s\"])(0\d_\w+/\w+|--[a-z][a-z0-9-]*)\b", block[3]):
            yield from ((block.start(3) + word.start(), f"{missing} does not exist") for missing in repository.missing(word[1]))
    text = COMMENT.sub(blank, FENCED.sub(blank, text))
    for span in SPAN.finditer(text):
        yield from ((span.start(), f"{missing} does not exist") for missing in repository.missing_in(span[1]))
    text = SPAN.sub(blank, text)
    parts = [(0, text)]
    for start, part in parts:  # the text of a link may hold an image
        for link in LINK.finditer(part):
            parts.append((start + link.start(2), link[2]))
            fault = fault_of(path, link[3])
            if fault:
                yield start + link.start(), f"{link[3]} {fault}"
            if link[1] and len(link[2]) < 8:
                yield start + link.start(), f"{link[3]} needs a text that describes the picture"


def faults_of_html(path):
    """Yields the place and the description of each line that GitHub shows as it is: a line that begins with HTML ends the
    paragraph, and up to the next empty line, nothing is Markdown. A value in a slide is filled before Marp sees it."""
    text = FENCED.sub(blank, read(path))
    if not path.startswith("docs/slides/"):
        yield from ((line.start(), "a value at the beginning of a line ends the paragraph") for line in
                    re.finditer(r"^ {0,3}<!-- = ", text, re.MULTILINE))
    yield from ((line.start(), "wants an empty line after it, or GitHub shows no Markdown") for line in
                re.finditer(r"^.*</summary>\n(?!\n)", text, re.MULTILINE))


def main():
    repository = Repository()
    faults = []
    for path in sys.argv[1:] or [path for path in repository.files if path.endswith(".md")]:
        text = read(path)
        for place, fault in sorted({*faults_of(path, repository), *faults_of_html(path)}):
            faults.append(f"{path}:{text.count(chr(10), 0, place) + 1}: {fault}")
    print(*faults, sep="\n", end="\n" * bool(faults))
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
