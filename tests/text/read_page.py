#!/usr/bin/env python3
"""read_page.py PAGE OLD NEW README: compares a page of tools/diff_pages.py with the two files that it shows, with the
changes that git finds between them, and with the idea in the README. Prints each difference; exits with 1 if there are any."""
import html.parser
import re
import subprocess
import sys


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.old, self.new, self.removed, self.added = [], [], [], []
        self.numbers, self.counted = [], []  # as printed beside the lines, and as counted
        self.blocks = []  # [is open, number of changed rows, text of the summary]
        self.idea, self.links, self.elements = "", [], []
        self.changed = self.inside = False
        self.texts = {"idea": None, "summary": None, "code": None, "number": None}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        kinds = (attributes.get("class") or "").split()
        self.elements.append((tag, attributes))
        self.inside |= attributes.get("id") == "train"
        if tag == "p" and "idea" in kinds:
            self.texts["idea"] = ""
        if not self.inside:
            return
        if tag == "details":
            self.blocks.append(["open" in attributes, 0, ""])
        elif tag == "summary":
            self.texts["summary"] = ""
        elif tag == "tr":
            self.changed, self.numbers_here = "on" in kinds, []
            self.blocks[-1][1] += self.changed
        elif tag == "td" and "c" in kinds:
            self.texts["code"], self.sides = "", kinds
        elif tag == "td" and "n" in kinds:
            self.texts["number"] = ""

    def handle_data(self, data):
        for kind, text in self.texts.items():
            if text is not None:
                self.texts[kind] = text + data

    def handle_endtag(self, tag):
        if tag == "p" and self.texts["idea"] is not None:
            self.idea, self.texts["idea"] = self.texts["idea"], None
        elif tag == "summary" and self.texts["summary"] is not None:
            self.blocks[-1][2], self.texts["summary"] = self.texts["summary"], None
        elif tag == "td" and self.texts["number"] is not None:
            self.numbers_here += [int(text) for text in self.texts["number"].split()]
            self.texts["number"] = None
        elif tag == "td" and self.texts["code"] is not None:
            for side, lines, changes in (("old", self.old, self.removed), ("new", self.new, self.added)):
                if side in self.sides or "both" in self.sides:
                    lines.append(self.texts["code"])
                    self.counted.append(len(lines))
                    if self.changed and "both" not in self.sides:
                        changes.append(self.texts["code"])
            self.texts["code"] = None
        elif tag == "tr" and self.inside:
            self.numbers.append((self.numbers_here, self.counted))
            self.counted = []
        elif tag == "section":
            self.inside = False


def lines_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read().splitlines()


def main():
    path, old, new, readme = sys.argv[1:]
    with open(path, encoding="utf-8") as file:
        page = Page(file.read())
    diff = subprocess.run(["git", "diff", "--no-index", "--minimal", "--indent-heuristic", "--no-color", "-U0", old, new],
                          stdout=subprocess.PIPE, text=True, check=False).stdout.splitlines()
    marks = [line for line in diff[diff.index("+++ b/" + new) + 1:] if line[0] in "+-"]
    faults = []

    def same(found, wanted, what):
        if found != wanted:
            first = next((pair for pair in zip(found, wanted) if pair[0] != pair[1]), (len(found), len(wanted)))
            faults.append(f"{what}: the page has {first[0]!r}, not {first[1]!r}")
    same(page.old, lines_of(old), old)
    same(page.new, lines_of(new), new)
    same(page.removed, [line[1:] for line in marks if line[0] == "-"], "removed lines")
    same(page.added, [line[1:] for line in marks if line[0] == "+"], "added lines")
    for numbers, counted in page.numbers:  # a comment that both steps have is shown once, with the old number
        if numbers != counted and numbers != counted[:1]:
            faults.append(f"the numbers {numbers} stand beside the lines {counted}")
    for opened, changes, summary in page.blocks:
        if opened != (changes > 0 and not re.match("first comment|includes", summary)):
            faults.append(f"{summary}: open is {opened}, with {changes} changed rows")
    paragraph = re.search(r"^\*\*The one idea:\*\* (.*?)\n\n", "\n".join(lines_of(readme)), re.M | re.S)[1]
    plain = re.sub(r"[*`[]|\](\(.*?\))?|<!--.*?-->", "", paragraph)
    same(page.idea.lower().split(), plain.lower().split(), "the idea")
    for tag, attributes in page.elements:
        for name in ("src", "href"):
            if not re.match(r"#|data:,$|diff\d\d\.html$|index\.html$", attributes.get(name) or "#"):
                faults.append(f"<{tag}> needs {attributes[name]}")
    print(*faults, sep="\n", end="\n" * bool(faults))
    sys.exit(bool(faults))


main()
