#!/usr/bin/env python3
"""Makes the slides of docs/slides with Marp, as HTML and PDF in build/slides, and adds up their minutes.

A deck is a Markdown file in docs/slides, such as 2-data-parallel.md. Lines of --- separate its slides. The comment at the
end of a slide holds the speaker notes; its first line says how long the slide takes, such as "2 minutes". A slide of the
class exercise has the title of an exercise, such as "Exercise 2.1: Sum the gradients", and gets a timer with the minutes of
that exercise. The blocks of code are filled here. The footer says where the code stands, and which make demo runs the commands
of the slide (tools/demo.py). A comment such as <!-- part: Network --> begins a part of the deck, and the footers show all
parts. The first slide shows the environment variables SPEAKER, PLACE, DATE and ADDRESS, if they are set."""
import argparse
import base64
import glob
import html
import os
import re
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # tools/
import drawing  # noqa: E402
import files  # noqa: E402
from record import quotes_of  # noqa: E402
from render import BEGIN, END, ROOT, VALUE, filled  # noqa: E402

DECKS = os.path.join(ROOT, "docs", "slides")
NODE = os.path.join(ROOT, "build", "node")
OUT = os.path.join(ROOT, "build", "slides")
NOTES = re.compile(r"<!--\n([\d.]+) minutes?\n(.*?)\n-->", re.DOTALL)
PART = re.compile(r"^<!-- part: (.*) -->\n", re.MULTILINE)
PICTURE = re.compile(r"!\[([^]]*)\]\(([^):#]*\.(?:svg|py))(?:#([\w-]+))?\)")  # a file, or the source that draws it
TEXT_LINK = re.compile(r"\[([^]]*)\]\(\.\.[^)]*\.md[^)]*\)")  # to a text of the course, which may lie anywhere beside a built deck
EXERCISE = re.compile(r"^# (Exercise|Fault) ((?:\d|debug)\.\d+): (.*)$", re.MULTILINE)
COLUMNS = 88  # a block of code with longer lines has smaller letters
FACES = {"Source Sans 3": ("source-sans-3", (400, 600, 700)), "Source Code Pro": ("source-code-pro", (400, 600))}


class BadDeck(Exception):
    pass


class Slide:
    """Of a deck: its number from 1, the text without notes, and the notes with their minutes (None without notes)."""

    def __init__(self, number, source):
        self.number, self.source = number, source
        notes = NOTES.search(source)
        self.minutes = float(notes[1]) if notes else None
        self.notes = notes[2].strip() if notes else ""
        self.body = PART.sub("", NOTES.sub("", source)).strip()
        part = PART.search(source)
        self.part = part[1] if part else None  # that begins here
        title = re.search(r"^# (.*)$", self.body, re.MULTILINE)
        self.title = VALUE.sub(r"\2", title[1]) if title else ""
        exercise = EXERCISE.search(self.body)
        self.exercise = exercise[2] if exercise else None

    def words(self):
        """How many words the speaker says: the notes without the points for other moments, such as "- Goes wrong:"."""
        points = re.split(r"\n(?=- )", self.notes)
        return sum(len(point.split()) for point in points if not point.startswith("- ") or re.match("- (Say|Ask)\\b", point))

    def blocks(self):
        """The lines of each fenced block."""
        fenced = re.findall(r"^ *```[^\n]*\n(.*?)^ *```", self.body, flags=re.DOTALL | re.MULTILINE)
        return [block.rstrip("\n").split("\n") for block in fenced]

    def quotes(self):
        """The commands of the slide, with the output that it quotes or draws."""
        return quotes_of(self.source.split("\n"))[0]


class Deck:
    def __init__(self, path, blocks="behind"):
        self.path, self.name = path, os.path.basename(path)[:-len(".md")]
        text = filled(drawing.read(path), self.refuse, blocks)
        front = re.match(r"---\n(.*?)\n---\n", text, re.DOTALL)
        if not front:
            raise BadDeck(f"{path}: want settings between two lines of --- at the beginning")
        self.front = front[0]
        self.title = re.search(r"^title: *(.*)$", front[1], re.MULTILINE)[1].strip('"')
        self.footer = re.search(r"^footer: *(.*)$", front[1], re.MULTILINE)[1].strip('"')
        self.slides = [Slide(i, source) for i, source in enumerate(split(text[front.end():]), 1)]

    def address(self, slide):
        """The deck and the slide, such as 1.26."""
        return f"{self.name[0]}.{slide.number}"

    def caption(self, slide):
        """What the right end of the footer says: where the first code stands, and how to run the commands."""
        blocks = [begin for begin in map(BEGIN.match, slide.source.split("\n")) if begin and begin[2] != "computed"]
        parts = [place(begin[2], begin[3]) for begin in blocks[:1]]
        return " · ".join(parts + [f"make demo S={self.address(slide)}"] * bool(slide.quotes()))

    def progress(self, slide):
        """The footer of a slide: the names of all parts, and that of this slide in bold. A deck without parts has its own."""
        begins = [other for other in self.slides if other.part]
        before = [other for other in begins if other.number <= slide.number]
        parts = [f"{i} {other.part}" for i, other in enumerate(begins, 1)]
        if before:
            parts[len(before) - 1] = f"**{parts[len(before) - 1]}**"
        return f"{self.title}: {' · '.join(parts)}" if parts else self.footer

    def refuse(self, number, problem):
        raise BadDeck(f"{os.path.relpath(self.path, ROOT)}:{number}: {problem}")


def split(text):
    """The slides: lines of --- separate them, but not in a fenced block."""
    slides, fence = [[]], False
    for line in text.split("\n"):
        fence ^= line.lstrip().startswith("```")
        if line == "---" and not fence:
            slides.append([])
        else:
            slides[-1].append(line)
    return ["\n".join(lines) for lines in slides]


def decks(blocks="behind"):
    return [Deck(path, blocks) for path in sorted(glob.glob(os.path.join(DECKS, "[1-9]-*.md")))]


def exercise_of(number):
    """The name and the minutes of an exercise or a fault of the debugging lab."""
    kind, rest = number.split(".")
    pattern = f"debug/{rest}-*" if kind == "debug" else f"{number}-*"
    found = glob.glob(os.path.join(ROOT, "exercises", pattern, "README.md"))
    if not found:
        raise BadDeck(f"there is no exercise {number}")
    text = drawing.read(found[0])
    name = re.search(rf"^# {re.escape(number)} (.*)$", text, re.MULTILINE)
    return name[1], int(re.search(r"\*\*Time:\*\* (\d+) minutes", text)[1])


def place(kind, words):
    """Says where a block of code stands."""
    if kind == "code":
        return re.sub(r' from ".*', "", words).replace(" ", ": ", 1)
    pair, name = words.split()[:2]
    return f"make diff{pair} F={name}"


def drawn(path, word=None, table=None):
    """The picture in a file, or the one that this source draws (see drawing.py)."""
    if not path.endswith(".py"):
        return drawing.read(path)
    svg = drawing.drawn(path, word, table)
    for fault in drawing.faults(svg):
        raise BadDeck(f"{os.path.relpath(path, ROOT)}: {fault}")
    return svg


def picture(match, folder):
    """The picture with its data in the page itself, so that one file is all of the slides."""
    data = base64.b64encode(drawn(os.path.join(folder, match[2]), match[3]).encode()).decode()
    return f'<img alt="{html.escape(match[1])}" src="data:image/svg+xml;base64,{data}">'


def for_marp(deck):
    """The text of the deck for Marp, for which any comment is a note of the speaker."""
    slides = []
    for slide in deck.slides:
        lines = []
        for line in slide.source.split("\n"):
            if BEGIN.match(line) or line.strip() == END or line.startswith(("<!-- runs ", "<!-- draws ")):
                continue
            lines.append(TEXT_LINK.sub(r"\1", PICTURE.sub(lambda m: picture(m, DECKS), VALUE.sub(r"\2", line))))
        text = f'\n<!-- _footer: "{deck.progress(slide)}" -->\n' + PART.sub("", "\n".join(lines) + "\n")
        extra = f'\n<div class="source">{deck.caption(slide)}</div>\n' if deck.caption(slide) else ""
        if any(len(line) > COLUMNS for block in slide.blocks() for line in block):
            extra += "\n<style scoped>pre > code { font-size: 19px; }</style>\n"
        if slide.exercise:
            minutes = exercise_of(slide.exercise)[1]
            extra += (f'\n<div class="timer" data-seconds="{60 * minutes}" role="timer" '
                      f'aria-label="{minutes} minutes for this exercise; a click starts them">{minutes}:00</div>\n')
        if slide.number == 1:
            about = [html.escape(os.environ[name]) for name in ("SPEAKER", "PLACE", "DATE", "ADDRESS") if os.environ.get(name)]
            extra += f'\n<p class="about">{"<br>".join(about)}</p>\n'
        notes = NOTES.search(text)
        at = notes.start() if notes else len(text)
        # The presenter view keeps line breaks, so each paragraph and each point of the notes becomes one line.
        spoken = re.sub(r"(?<!\n)\n(?!\n|- ) *", " ", notes[2]) if notes else ""
        after = text[at:].replace(notes[2], spoken) if notes else ""
        slides.append(text[:at].rstrip() + "\n" + extra + "\n" + after)
    return deck.front + "\n---\n".join(slides)


def font_faces():
    rules = []
    for family, (package, weights) in FACES.items():
        for weight in weights:
            path = os.path.join(NODE, "node_modules/@fontsource", package, "files", f"{package}-latin-{weight}-normal.woff2")
            with open(path, "rb") as file:
                data = base64.b64encode(file.read()).decode()
            rules.append(f"@font-face {{ font-family: '{family}'; font-weight: {weight}; "
                         f"src: url(data:font/woff2;base64,{data}) format('woff2'); }}")
    return "\n".join(rules)


def build(wanted):
    source = os.path.join(OUT, "source")  # for Marp, which makes all decks of a folder
    shutil.rmtree(source, ignore_errors=True)
    files.make_folder(source)
    files.write(os.path.join(source, "theme.css"), drawing.read("docs/slides/theme.css") + font_faces())
    built = [deck for deck in decks() if not wanted or deck.name[0] in wanted]
    if not built:
        raise BadDeck(f"there is no deck {' '.join(wanted)} in docs/slides")
    for deck in built:
        files.write(os.path.join(source, deck.name + ".md"), for_marp(deck))

    chromium = os.environ.get("CHROME_PATH") or next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), "")
    environment = {**os.environ, "CHROME_PATH": chromium, **({"CHROME_NO_SANDBOX": "1"} if os.geteuid() == 0 else {})}
    marp = [os.path.join(NODE, "node_modules/.bin/marp"), "--no-stdin", "--html", "--config-file", os.path.join(DECKS, "marp.json"),
            "--theme-set", os.path.join(source, "theme.css"), "--input-dir", source, "--output", OUT]
    for kind in ([], ["--pdf", "--pdf-outlines"]):
        folder = tempfile.mkdtemp()  # Marp leaves Chromium's profile there
        run = subprocess.run(marp + kind, env={**environment, "TMPDIR": folder}, stdin=subprocess.DEVNULL,
                             capture_output=True, text=True)
        shutil.rmtree(folder, ignore_errors=True)
        if run.returncode:
            raise BadDeck(run.stderr.strip())
    for deck in built:
        page = os.path.join(OUT, deck.name + ".html")
        # Marp shows the notes as they are, also the stars around the sentence to say first.
        text = re.sub(r'(data-index="\d+" tabindex="0"><p>[\d.]+ minutes?\n)\*\*(.*?)\*\*\n', r"\1<strong>\2</strong>\n",
                      drawing.read(page))
        files.write(page, text.replace("</body>", f"<script>{drawing.read('docs/slides/timer.js')}</script></body>"))
        print(f"{os.path.relpath(page, ROOT)} and .pdf")


def minutes_of(deck):
    """The minutes of talk and of the exercises."""
    return (sum(slide.minutes or 0 for slide in deck.slides),
            sum(exercise_of(slide.exercise)[1] for slide in deck.slides if slide.exercise))


def schedule():
    rows = [(deck.title, len(deck.slides), sum(slide.words() for slide in deck.slides), *minutes_of(deck)) for deck in decks()]
    rows.append(("all", *(sum(column) for column in zip(*(row[1:] for row in rows)))))
    print("| session                 | slides | words a minute | talk (min) | exercises (min) | both (min) |\n|---|---|---|---|---|---|")
    for title, count, words, talk, own in rows:
        print(f"| {title:<23} | {count:6} | {words / talk:14.0f} | {talk:10g} | {own:15g} | {talk + own:10g} |")


def list_slides():
    for deck in decks():
        at = 0
        print(f"\n{deck.title}: each slide, after the minute at which it begins")
        for slide in deck.slides:
            print(f"{at:6g}  {slide.number:2}  {slide.title}")
            at += (slide.minutes or 0) + (exercise_of(slide.exercise)[1] if slide.exercise else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("build", help="makes the decks")
    one.add_argument("decks", nargs="*", metavar="N", help="numbers of decks (by default all)")
    two = commands.add_parser("schedule", help="adds up the minutes of the slides and exercises")
    two.add_argument("--slides", action="store_true", help="list each slide, with the minute at which it begins")
    options = parser.parse_args()
    if options.command == "build":
        build(options.decks)
    else:
        schedule()
        if options.slides:
            list_slides()


if __name__ == "__main__":
    try:
        main()
    except BadDeck as error:
        sys.exit(f"error: {error}")
