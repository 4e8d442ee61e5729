#!/usr/bin/env python3
"""Shows a slide: runs the commands whose output it quotes, as tools/author/record.py does, and prints the lines that the slide
shows. If it has a chart, the chart is drawn from this run, and opened where there is a screen, or else drawn in the terminal.
SLIDE is the number of a deck and of a slide, such as 1.26. Without it, the slides with commands are listed. The commands run in
a new folder, such as build/demo/1.26, with links to the course, so a demo finds no files of an older one."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "author"))
import files  # noqa: E402
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, WIDTH, drawn, points_on  # noqa: E402
from record import FIGURES, NOTES, copy_of_steps, is_dots, same_words  # noqa: E402
from render import ROOT  # noqa: E402
from slides import BadDeck, decks  # noqa: E402


def build(commands):
    """Makes the programs that the commands name, and the launcher, which a script may start for them."""
    programs = sorted({"03_multigpu_launcher/launch", *re.findall(r"\b0\d_\w+/[a-z]+\b(?!\.)", commands)})
    if subprocess.run(["make", "-s", "QUIET=@", "DEVICE=cpu", *(f"build/cpu/{program}" for program in programs)],
                      cwd=ROOT, check=False).returncode:
        sys.exit("error: a program of this slide was not built: see the lines above")


def viewer():
    """The program that opens a picture, or None without a screen."""
    return (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and shutil.which("xdg-open")


# A terminal without colours shows an area of a colour as one of these letters.
LETTERS = {colour.line: letter for colour, letter in zip((COMPUTE, COMMUNICATE, UPDATE, COPY, HOST, FOURTH), "#=+-.%")}


def in_letters(svg, columns, coloured):
    """Yields the lines of the picture for a terminal with so many columns, whose cells are twice as high as wide."""
    cell, texts = WIDTH / columns, []
    root = ElementTree.fromstring(svg)
    rows = round(float(root.get("height")) / cell / 2)
    cells = [[(" ", "#000000", "#FFFFFF")] * columns for _ in range(rows)]

    def put(x, y, letter, ink=None, fill=None):
        if 0 <= x < columns and 0 <= y < rows:
            cells[y][x] = letter, ink or cells[y][x][1], fill or cells[y][x][2]
    for element in root.iter():
        tag, at = element.tag.rpartition("}")[2], element.get
        if tag == "rect" and at("x") and at("fill") != "none":
            x, width = float(at("x")) / cell, float(at("width")) / cell
            y, height = float(at("y")) / cell / 2, float(at("height")) / cell / 2
            count, letter = max(round(height), 1), " " if coloured else LETTERS.get(at("fill"), " ")
            first = int(y + height / 2) - (count - 1) // 2  # around its text
            for row in range(first, first + count):
                for column in range(round(x), max(round(x + width), round(x) + 1)):
                    put(column, row, letter, fill=at("fill"))
        elif tag == "circle":
            put(int(float(at("cx")) / cell), int(float(at("cy")) / cell / 2), "o", at("fill"))
        elif tag == "path" and re.fullmatch("[-ML0-9. ]+", at("d")):
            for x, y in points_on(at("d")):
                put(int(x / cell), int(y / cell / 2), "\u00b7", at("stroke"))
        elif tag == "text":
            before = len(element.text) * {"start": 0, "middle": 0.5, "end": 1}[at("text-anchor")]
            row = int((float(at("y")) - 0.35 * float(at("font-size"))) / cell / 2)
            texts.append((row, round(float(at("x")) / cell - before), element.text, at("fill")))
    end = [0] * rows
    for row, x, text, ink in sorted(texts):
        x = max(x, end[row])  # the letters of a narrow terminal are wide, and would lie on each other
        end[row] = x + len(text) + 1
        for i, letter in enumerate(text):
            put(x + i, row, letter, ink)
    for row in cells:
        if coloured:
            yield "".join(f"\033[38;2;{rgb(ink)}m\033[48;2;{rgb(fill)}m{letter}" for letter, ink, fill in row) + "\033[0m"
        else:
            yield "".join(letter for letter, _, _ in row).rstrip()


def rgb(colour):
    return ";".join(str(byte) for byte in bytes.fromhex(colour[1:]))


def shows(quoted, line):
    """Whether a slide with these lines of output shows that line: dots stand for others, and the launcher's are left out."""
    if any(map(is_dots, quoted)):
        return any(same_words(other, line) for other in quoted)
    return any(map(NOTES.match, quoted)) or not NOTES.match(line)


def run(commands, quoted, folder):
    """Prints the commands and, as it comes, what the slide shows of their output. Returns all of it."""
    print(commands, flush=True)
    printed, hidden = [], []
    with subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "DEVICE": "cpu"}) as shell:
        for line in shell.stdout:
            if shows(quoted, line.rstrip("\n")):
                print(line, end="", flush=True)
            else:
                hidden.append(line)
            printed.append(line)
    if shell.returncode:
        print(*hidden, sep="", end="", flush=True)
        sys.exit(f"error: the commands ended with status {shell.returncode}; the files that they wrote are in {os.path.relpath(folder, ROOT)}")
    return "".join(printed)


def draw(name, printed, folder):
    """Draws the figure of that name from what its commands have printed."""
    table, picture = (os.path.join(folder, name.replace("#", "-") + suffix) for suffix in (".txt", ".svg"))
    source, _, word = name.partition("#")
    files.write(table, printed)
    try:
        svg = drawn(os.path.join(FIGURES, source + ".py"), word, table)
    except (ArithmeticError, AttributeError, LookupError, ValueError):
        sys.exit(f"error: docs/figures/{source}.py finds no numbers in what the commands printed")
    files.write(picture, svg)
    if viewer():
        subprocess.run([viewer(), picture], stderr=subprocess.DEVNULL, check=False)
    else:
        columns = min(shutil.get_terminal_size((112, 0)).columns, 112)  # with more, the letters of a word would have gaps
        print("", *in_letters(svg, columns, sys.stdout.isatty() and os.environ.get("TERM") != "dumb"), sep="\n")
    print(f"\n{os.path.relpath(picture, ROOT)} shows these numbers")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", metavar="FOLDER", help="the built programs (by default, make builds them in build/cpu)")
    parser.add_argument("slide", nargs="?", metavar="SLIDE")
    options = parser.parse_args()
    shown = {deck.address(slide): slide for deck in decks("none") for slide in deck.slides if slide.quotes()}
    if not options.slide:
        for address, slide in shown.items():
            print(f"make demo S={address:<5} {slide.title}")
        return
    if options.slide not in shown:
        sys.exit(f"error: there is no slide {options.slide} with commands; make demo lists them")
    slide = shown[options.slide]
    print(f"Slide {options.slide}: {slide.title}\n", flush=True)
    if not options.programs:
        build("".join(quote.commands for quote in slide.quotes()))
    folder = os.path.join(ROOT, "build", "demo", options.slide)
    try:
        if os.path.exists(folder):
            shutil.rmtree(folder)
        os.makedirs(folder)
        copy_of_steps(folder, options.programs or "build/cpu")
    except OSError as error:
        sys.exit(f"error: build/demo/{options.slide} cannot be made anew ({error.strerror}): run the demo in a copy of the course that is "
                 "yours, and not twice at the same time")
    for quote in slide.quotes():
        printed = run(quote.commands, ["..."] if quote.figure else quote.lines_in(slide.source.split("\n")), folder)
        if quote.figure:
            draw(quote.figure, printed, folder)


if __name__ == "__main__":
    try:
        main()
    except BadDeck as error:
        sys.exit(f"error: {error}")
