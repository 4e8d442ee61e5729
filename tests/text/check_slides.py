#!/usr/bin/env python3
"""check_slides.py [--pdf FOLDER] [DECK...]: prints each slide that breaks a rule of docs/slides/README.md. With --pdf, it also
reads the PDF files in the folder, and finds text that is cut off, too small or lost. In exported HTML, a slide hides what
runs over, and no size tells it; in the PDF, pdftotext knows the place of each word."""
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree

sys.dont_write_bytecode = True
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools", "author"))
from slides import BadDeck, Deck, decks, exercise_of  # noqa: E402
from render import BEGIN, VALUE  # noqa: E402

FOOTER = 678 / 720  # where the footer begins, as a part of the height of a page
SIDE = 30 / 1280  # the margin on both sides
SMALLEST = 14 / 540  # the height of a line of text: 14 points on a page of 540


def without_blocks(text):
    return re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)


def problems_of(slide):
    """What is wrong with the source of a slide."""
    for line in "\n".join(map("\n".join, slide.blocks())).split("\n"):
        if re.search(r"MASTER_PORT=\d|--master-port \d", line):
            yield "a port that only one attendee on a node can use; want such as MASTER_PORT=$((20000 + UID % 10000))"
    if slide.exercise:
        name, _ = exercise_of(slide.exercise)
        if "_class: exercise" not in slide.body:
            yield "an exercise without the class exercise, and so without a timer"
        if not slide.title.endswith(f" {slide.exercise}: {name}"):
            yield f"exercise {slide.exercise} has the name {name}"


def pages_of(pdf):
    """The pages: their width, height, and words as (text, left, top, right, bottom)."""
    text = subprocess.run(["pdftotext", "-bbox", pdf, "-"], capture_output=True, text=True, check=True).stdout
    text = re.sub(r"[\x00-\x08\x0b\x0c\x0e-\x1f]", "", text)
    space = "{http://www.w3.org/1999/xhtml}"
    for page in ElementTree.fromstring(text).iter(space + "page"):
        words = [(word.text or "", *(float(word.get(side)) for side in ("xMin", "yMin", "xMax", "yMax")))
                 for word in page.iter(space + "word")]
        yield float(page.get("width")), float(page.get("height")), words


def words_of(slide):
    """The words of a slide as Marp shows them, without signs of Markdown."""
    text = VALUE.sub(r"\2", slide.body)
    text = "\n".join(line for line in text.split("\n") if not BEGIN.match(line))
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    prose = without_blocks(text)
    prose = re.sub(r"!\[[^]]*\]\([^)]*\)", "", prose)
    prose = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", prose)
    prose = re.sub(r"<[^>]*>", " ", prose)
    prose = re.sub(r"^\s*\|?[\s:|-]*$", "", prose, flags=re.MULTILINE)
    for body in [prose, *("\n".join(lines) for lines in slide.blocks())]:
        yield from re.findall(r"[A-Za-z0-9_]{3,}", body)


def problems_of_page(deck, slide, page):
    width, height, words = page
    shown = "".join(word[0] for word in words)
    below = deck.progress(slide) + str(slide.number) + deck.caption(slide)
    for word, left, top, right, bottom in words:
        footer = top > FOOTER * height and word in below
        if not footer and bottom > (FOOTER + 0.004) * height:
            yield f'"{word}" runs into the footer'
        if right > (1 - SIDE) * width + 1 or left < SIDE * width - 1:
            yield f'"{word}" runs out of the slide'
        if not footer and bottom - top < SMALLEST * height:
            yield f'"{word}" is too small: {(bottom - top) / height * 540:.1f} points'
    for word in words_of(slide):
        if word not in shown:
            yield f'"{word}" is not on the page'


def main():
    arguments = sys.argv[1:]
    folder = None
    if arguments[:1] == ["--pdf"]:
        folder, arguments = arguments[1], arguments[2:]
    found = 0
    for deck in [Deck(path) for path in arguments] or decks():
        problems = [(slide.number, problem) for slide in deck.slides for problem in problems_of(slide)]
        if folder:
            pages = list(pages_of(os.path.join(folder, deck.name + ".pdf")))
            if len(pages) != len(deck.slides):
                problems.append((0, f"{len(pages)} pages for {len(deck.slides)} slides"))
            for slide, page in zip(deck.slides, pages):
                problems += [(slide.number, problem) for problem in dict.fromkeys(problems_of_page(deck, slide, page))]
        found += len(problems)
        for number, problem in problems:
            print(f"{deck.name}{f', slide {number}' if number else ''}: {problem}")
    return found > 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadDeck as error:
        sys.exit(f"error: {error}")
