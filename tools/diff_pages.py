#!/usr/bin/env python3
"""diff_pages.py [-o FOLDER] PAIR...: writes a page for each pair of steps, such as diff12.html for 12, and index.html. A page
shows the train.c of both steps side by side, one definition after the other: unchanged ones are folded, new ones have the
whole width. On top stands the one idea of the later step, from its README; at the end the files that this README asks to
read. A page needs no other file and no network. The steps are those in the current folder."""
import argparse
import difflib
import glob
import html
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
import files  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ALIKE = 0.5  # share of letters that two lines have in common if one is a new version of the other

LEXEMES = re.compile(r"""(?P<comment>//.*)|(?P<directive>^\#.*)|(?P<string>"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*')
    |(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<blank>\s+)|(?P<arrow>->)|(?P<sign>[-+*/%&|^=!<>]+|.)""", re.X)
KEYWORDS = set("""break case char const continue default do double else enum float for goto if inline int long return
    short signed sizeof static struct switch typedef uint8_t uint32_t uint64_t int64_t size_t union unsigned void volatile
    while NULL""".split())


def lexemes(line):
    """The line in pieces (kind, text). Texts are cut into words, so that a changed word of a comment can be marked."""
    for match in LEXEMES.finditer(line):
        kind, text = match.lastgroup, match.group()
        if kind in ("comment", "directive", "string"):
            yield from ((kind, piece) for piece in re.findall(r"\s+|\w+|[^\w\s]+", text))
        else:
            yield "keyword" if text in KEYWORDS else kind, text


def words(line):
    return [text for _, text in lexemes(line) if not text.isspace()]


def likeness(old, new):
    a, b = words(old), words(new)
    same = difflib.SequenceMatcher(None, a, b, autojunk=False).get_matching_blocks()
    letters = sum(len(text) for block in same for text in a[block.a:block.a + block.size])
    return 2 * letters / (len("".join(a + b)) or 1)


def sort_of(line):
    return re.match(r"//|#|", line.lstrip()).group()


def side_by_side(old, new):
    """Pairs the removed and the added lines of a hunk: (i, j), (i, None), (None, j). No two pairs cross, and as much text
    as possible stands beside the text that it replaces."""
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    alike = [[likeness(a, b) for b in new] for a in old]
    for i in reversed(range(len(old))):
        for j in reversed(range(len(new))):
            # A pair of other lines is shorter than two rows.
            both = alike[i][j] if alike[i][j] >= ALIKE else 0.01 if sort_of(old[i]) == sort_of(new[j]) else 0
            best[i][j] = max(best[i + 1][j], best[i][j + 1], both + best[i + 1][j + 1])
    i = j = 0
    while i < len(old) or j < len(new):
        if j == len(new) or i < len(old) and best[i][j] == best[i + 1][j]:
            yield i, None
            i += 1
        elif i == len(old) or best[i][j] == best[i][j + 1]:
            yield None, j
            j += 1
        else:
            yield i, j
            i, j = i + 1, j + 1


def hunks(old, new):
    """The changes that git finds, as make diff12 and make diffstat do: (first, count, first, count) from 0."""
    text = subprocess.run(["git", "diff", "--no-index", "--no-ext-diff", "--no-textconv", "--text", "--no-color",
                           "--diff-algorithm=minimal", "--indent-heuristic", "--unified=0", "--inter-hunk-context=0",
                           old, new], stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace").stdout
    for match in re.finditer(r"^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@", text, re.M):
        a, count_a, b, count_b = (1 if part is None else int(part) for part in match.groups())
        yield a - (count_a > 0), count_a, b - (count_b > 0), count_b  # git names the line before an empty range


def all_rows(old, new, changes):
    """Rows (i, j, changed) of line numbers from 0. i or j is None if the line has no counterpart."""
    i = j = 0
    for a, count_a, b, count_b in list(changes) + [(len(old), 0, len(new), 0)]:
        yield from ((i + k, j + k, False) for k in range(a - i))
        for k, m in side_by_side(old[a:a + count_a], new[b:b + count_b]):
            yield None if k is None else a + k, None if m is None else b + m, True
        i, j = a + count_a, b + count_b


def name_of(definition):
    """backward for a function, struct trainer, options for options[] = {...}, told_to_stop for a variable."""
    first = next(line for line in definition if not line.startswith("//"))
    text = re.sub(r"\{[^}]*\} *", "", first) if first.endswith(";") else first
    if re.search(r"\b(struct|union|enum) \{", text):  # its name stands at the end
        text = next((line for line in definition if line.startswith("}")), text).lstrip("} ")
    name = re.sub(r" *[\[({=;].*", "", text)
    return name if re.match(r"(struct|union|enum) \w+$", name) else re.sub(r".*\W", "", name)


def definitions(lines):
    """The names of the definitions that the lines belong to. A definition begins with the comment above it, and owns the
    blank lines below it."""
    owners, begin = [], 0
    for n, line in enumerate(lines):
        end = line.startswith("}") or re.match(r"[A-Za-z_].*;( *//.*)?$", line)
        if line.startswith("#"):
            name = "includes"
        elif line.startswith("//") and not owners and lines[n + 1:n + 2] and not lines[n + 1].startswith("//"):
            name = "first comment"
        elif end and not all(each.startswith("//") for each in lines[begin:n + 1]):
            name = name_of(lines[begin:n + 1])
        elif not line and begin == n and owners:
            name = owners[-1]
        else:
            continue
        owners += [name] * (n + 1 - begin)
        begin = n + 1
    return owners + ["end"] * (len(lines) - begin)


def blocks(rows, old, new):
    """Groups the rows by definition: (name, rows). A removed definition stands where it was."""
    owners = definitions(old), definitions(new)
    order = list(dict.fromkeys(owners[1]))
    before = None
    for name in dict.fromkeys(owners[0]):
        if name not in order:
            order.insert(order.index(before) + 1 if before else 0, name)
        before = name
    found, place = [], -1
    for i, j, changed in rows:
        wanted = order.index(owners[0][i] if j is None else owners[1][j])
        if wanted > place:  # a row never moves up, so all lines keep their order
            place = wanted
            found.append((order[place], []))
        found[-1][1].append((i, j, changed))
    return found


def marked(line, other):
    """Which lexemes of the line differ from those of the other line."""
    pieces, rest = [text for _, text in lexemes(line)], [text for _, text in lexemes(other)]
    differ = [True] * len(pieces)
    if likeness(line, other) < ALIKE:
        return [False] * len(pieces)
    for block in difflib.SequenceMatcher(None, pieces, rest, autojunk=False).get_matching_blocks():
        differ[block.a:block.a + block.size] = [False] * block.size
    for n, text in enumerate(pieces):
        if text.isspace():  # a blank between two marked words belongs to them
            differ[n] = 0 < n < len(pieces) - 1 and differ[n - 1] and differ[n + 1]
    return differ


def code(line, other=None, mark=None):
    """The line as HTML, with its words that the other line does not have inside the element mark."""
    indent = len(line) - len(line.lstrip(" "))
    differ = marked(line, other) if other is not None else [False] * len(line)
    text, opened, kind_before = "", False, None

    def close(what, now):
        return what if now else ""
    for (kind, piece), differs in zip(lexemes(line[indent:]), differ[indent > 0:]):
        kind = None if kind in ("word", "sign", "blank") else kind
        if differs != opened or kind != kind_before:
            text += close("</span>", kind_before)
            if differs != opened:
                text += f"<{mark}>" if differs else f"</{mark}>"
            text += f'<span class="{kind}">' if kind else ""
            opened, kind_before = differs, kind
        gap = piece.isspace() and len(piece) > 1
        text += f'<i class="gap">{piece}</i>' if gap else html.escape(piece, quote=False) + "<wbr>" * (piece == "(")
    text += close("</span>", kind_before) + close(f"</{mark}>", opened)
    return f'<i>{" " * indent}</i>' * (indent > 0) + text, f' style="--i:{indent}"' * (indent > 0)


def cell(line, side, other=None, mark=None):
    text, style = code(line, other, mark)
    return f'<td class="c {side}"{style}>{text}</td>'


def number(n, sign=""):
    return f'<td class="n">{"" if n is None else n + 1}</td><td class="s">{sign}</td>'


def pair_table(rows, old, new):
    """Both versions side by side. The first row of each change has the class change."""
    text, before = '<table class="pair"><colgroup><col class="n"><col class="s"><col><col class="n"><col class="s"><col></colgroup>', False
    for i, j, changed in rows:
        a, b = (None if i is None else old[i]), (None if j is None else new[j])
        if not changed and a.startswith("//"):  # a comment is easier to read in long lines
            text += f'<tr class="wide">{number(i)}{cell(a, "both").replace("<td", "<td colspan=4", 1)}</tr>\n'
            continue
        left = number(i, "−" if changed and a is not None else "") + (
            '<td class="none"></td>' if a is None else cell(a, "old", b if changed else None, "del"))
        right = number(j, "+" if changed and b is not None else "") + (
            '<td class="none"></td>' if b is None else cell(b, "new", a if changed else None, "ins"))
        kind = "same" if not changed else "on add" if a is None else "on cut" if b is None else "on"
        text += f'<tr class="{kind}{" change" * (changed and not before)}">{left}{right}</tr>\n'
        before = changed
    return text + "</table>"


def wide_table(rows, old, new):
    """One column, for a definition that stands in one step only, or that both steps have in common, and for the includes."""
    text, before = '<table class="wide"><colgroup><col class="n"><col class="n"><col class="s"><col></colgroup>', False
    one_by_one = (row for i, j, changed in rows
                  for row in ([(i, None, True), (None, j, True)] if changed and None not in (i, j) else [(i, j, changed)]))
    for i, j, changed in one_by_one:
        side = "both" if i is not None and j is not None else "new" if i is None else "old"
        numbers = "".join(f'<td class="n">{"" if n is None else n + 1}</td>' for n in (i, j))
        kind = "same" if not changed else "on" if before else "on change"
        sign = {"both": "", "new": "+", "old": "−"}[side] if changed else ""
        text += f'<tr class="{kind}">{numbers}<td class="s">{sign}</td>{cell(old[i] if j is None else new[j], side)}</tr>\n'
        before = changed
    return text + "</table>"


def counts(rows):
    added = sum(1 for _, j, changed in rows if changed and j is not None)
    removed = sum(1 for i, _, changed in rows if changed and i is not None)
    return " ".join([f'<b class="plus">+{added}</b>'] * (added > 0) + [f'<b class="minus">−{removed}</b>'] * (removed > 0))


def kind_of(rows, old, new):
    if not any(changed for _, _, changed in rows):
        return "unchanged"
    told = [(i, j) for i, j, _ in rows if (new[j] if i is None else old[i])]
    return "new" if all(i is None for i, _ in told) else "removed" if all(j is None for _, j in told) else "changed"


def details(name, kind, about, table, attributes=""):
    return (f'<details class="{kind}"{attributes}><summary><b>{name}</b> <small>{about}</small></summary>'
            f"{table}</details>\n")


def compare(old, new, changes):
    """The definitions of both files as HTML, and links to those that differ."""
    text = links = ""
    for name, rows in blocks(list(all_rows(old, new, changes)), old, new):
        kind, lines = kind_of(rows, old, new), f"{len(rows)} line{'s' * (len(rows) > 1)}"
        head = name in ("first comment", "includes")  # they repeat the idea, or are not read at all
        draw = pair_table if kind == "changed" and not head else wide_table
        opened = kind != "unchanged" and not head
        about = f"unchanged, {lines}" if kind == "unchanged" else f"{kind} {counts(rows)}"
        anchor = name.replace(" ", "-")
        text += details(name, kind, about, draw(rows, old, new), f' id="{anchor}"' + " open" * opened)
        if opened:
            links += f'<a href="#{anchor}">{name} {counts(rows)}</a>\n'
    return text, links


def inline(markdown):
    """The few marks that the sentences of READMEs have."""
    text = html.escape(re.sub(r"<!--.*?-->|\[([^]]*)\]\([^)]*\)", r"\1", markdown), quote=False)
    for pattern, element in ((r"`([^`]*)`", "code"), (r"\*\*([^*]*)\*\*", "b"), (r"\*([^*]*)\*", "em")):
        text = re.sub(pattern, rf"<{element}>\1</{element}>", text)
    return text


class Step:
    def __init__(self, number):
        folders = glob.glob(f"0{number}_*/train.c")
        if len(folders) != 1:
            sys.exit(f"error: step {number} has no train.c here (looked for 0{number}_*/train.c)")
        self.number, self.path = number, folders[0]
        self.folder = os.path.dirname(self.path)
        self.lines = lines_of(self.path)
        readme = "\n".join(lines_of(self.folder + "/README.md"))
        self.title = self.must_have(re.search(rf"^# (Step {number}: .*)", readme, re.M), f"title that begins with # Step {number}:")
        idea = self.must_have(re.search(r"^\*\*The one idea:\*\* (.*?)(?:\n\n|\Z)", readme, re.M | re.S),
                              "paragraph that begins with **The one idea:**").replace("\n", " ")
        self.idea = inline(idea[0].upper() + idea[1:])
        # 3. `units.c`: `f`, `g`: the reason (5 min), where a long item goes on in the next line
        self.files = re.findall(r"^\d+\. `(\S+\.[ch])`((?:[:,] `\w+`)*): (.*) \(\d+ min\)$", re.sub(r"\n   (?=\S)", " ", readme),
                                re.M)

    def must_have(self, match, what):
        if not match:
            sys.exit(f"error: {self.folder}/README.md has no {what}")
        return match.group(1)


def lines_of(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().split("\n")[:-1]


def reading(step):
    """The files that the README asks to read in addition to the changes: a header as a whole, a source in its functions."""
    text = ""
    for file, functions, about in step.files:
        path = file if "/" in file else f"{step.folder}/{file}"
        lines = lines_of(path)
        wanted = re.findall(r"`(\w+)`", functions)
        owners = definitions(lines) if file.endswith(".c") else [file] * len(lines)
        text += f"<h3>{file}: {inline(about)}</h3>\n"
        for name in dict.fromkeys(owners):
            rows = [(None, n, False) for n, owner in enumerate(owners) if owner == name]
            if name in wanted or not wanted:
                text += details(name, "file", f"{len(rows)} lines", wide_table(rows, [], lines))
    return f"<h2>Then read</h2>\n{text}" if text else ""


PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{css}</style>
</head>
<body>
<header>
<div><nav>{nav}</nav><span id="where"></span><button id="ask">? keys</button></div>
{heads}</header>
<main>
{body}</main>
<dialog id="help">
<h2>Keys</h2>
<table>
<tr><td><kbd>n</kbd> <kbd>p</kbd> or <kbd>j</kbd> <kbd>k</kbd><td>next, previous change
<tr><td><kbd>]</kbd> <kbd>[</kbd> or <kbd>→</kbd> <kbd>←</kbd><td>next, previous function
<tr><td><kbd>o</kbd><td>opens or folds the function
<tr><td><kbd>O</kbd><td>opens or folds all unchanged functions
<tr><td><kbd>s</kbd><td>side by side, or in one wide column
<tr><td>{digits}<td>the other pairs of steps
<tr><td><kbd>0</kbd><td>the list of all pairs
<tr><td><kbd>Ctrl</kbd> <kbd>+</kbd><td>larger text
<tr><td><kbd>?</kbd><td>shows and hides these keys
</table>
</dialog>
<script>
{js}</script>
</body>
</html>
"""


def page(title, body, pairs, here=None, heads=""):
    nav = "".join(f'<a href="diff{a}{b}.html"{" aria-current=page" * ((a, b) == here)}>{a}→{b}</a>' for a, b in pairs)
    with open(f"{HERE}/diff_pages.css", encoding="utf-8") as css, open(f"{HERE}/diff_pages.js", encoding="utf-8") as js:
        return PAGE.format(title=html.escape(title), nav=nav, heads=heads, body=body, css=css.read(), js=js.read(),
                           digits=" ".join(f"<kbd>{n + 1}</kbd>" for n in range(len(pairs))))


def main():
    parser = argparse.ArgumentParser(description="Writes pages that show what each step changes.")
    parser.add_argument("-o", default="build/diffs", metavar="FOLDER", help="where to write them (default: %(default)s)")
    parser.add_argument("pair", nargs="+", help="such as 12 for the changes from step 1 to step 2")
    arguments = parser.parse_args()
    for pair in arguments.pair:
        if not re.fullmatch(r"\d\d", pair):
            sys.exit(f"error: {pair} is no pair of steps, such as 12")
    if not shutil.which("git"):
        sys.exit("error: git is not installed, but make needs it to show differences (even outside a git checkout)")
    pairs = [tuple(pair) for pair in arguments.pair]
    steps = {number: Step(number) for pair in pairs for number in pair}
    files.make_folder(arguments.o)
    listed = ""
    for a, b in pairs:
        old, new = steps[a], steps[b]
        changes = list(hunks(old.path, new.path))
        added, removed = sum(change[3] for change in changes), sum(change[1] for change in changes)
        size = f'<b class="plus">+{added}</b> <b class="minus">−{removed}</b>'
        text, links = compare(old.lines, new.lines, changes)
        heads = f'<div class="heads"><span class="old">− {old.path}</span><span class="new">+ {new.path}</span></div>\n'
        body = (f'<h1>{inline(new.title)} {size}</h1>\n<p class="idea">{new.idea}</p>\n<nav class="contents">{links}</nav>\n'
                f'<section id="train">\n{text}</section>\n{reading(new)}')
        files.write(f"{arguments.o}/diff{a}{b}.html", page(f"Step {a} to step {b}", body, pairs, (a, b), heads))
        listed += f'<h2><a href="diff{a}{b}.html">{inline(new.title)}</a> {size}</h2>\n<p>{new.idea}</p>\n'
    files.write(f"{arguments.o}/index.html",
                page("What each step changes", f"<h1>What each step changes</h1>\n{listed}", pairs))
    print(f"{arguments.o}/index.html: {len(pairs)} page{'s' * (len(pairs) > 1)}. Open it in a browser; the key ? shows the keys.")


if __name__ == "__main__":
    main()
