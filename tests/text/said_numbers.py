#!/usr/bin/env python3
"""said_numbers.py [DECK...]: prints each number that the title, the sentences, the notes or a picture's description of a
slide says, and that the deck does not show. If a command prints something else, tools/author/record.py renews its output, and
this finds the words that still say the old number.

A number counts if it has a decimal point, a comma, or five digits and more. A slide may say a number that the code, the output, also
that of a chart, a table, a computed value or a figure of the deck shows; one that two numbers of this slide give as a quotient, sum or
difference; and each of them rounded, also in thousands, millions or billions. A picture's description may say only what is in
this picture."""
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from check_slides import ROOT, without_blocks  # noqa: E402
from slides import PICTURE, Deck, decks, drawn  # noqa: E402
from render import VALUE  # noqa: E402

NUMBER = re.compile(r"(?<![\w.,/])\d+(?:,\d{3})*(?:\.\d+)?(?![\w/]|[.,]\d)")
# The numbers of papers, of versions and of exercises say nothing that a run could change.
NAMES = re.compile(r"\]\([^)]*\)|https?://\S+|arXiv\s+[\d.]+|([Vv]ersion|[Ss]ection|Llama) [\d.]+|\bdebug\.\d+")
FACTS = {"1,979": "TFLOP/s of an H100 for sparse matrices", "2,000": "2,970 GB/s divided by 1.5", "60,000": "training images in MNIST", "10,000": "test images in MNIST", "16,384": "GPUs for Llama 3",
         "15.6": "trillion tokens of Llama 3",
         "131,072": "tokens of a long sequence", "500,000": "files in a home folder of the Alliance", "1,724": "s to clone CIFAR-10",
         "1,281,167": "training images of ImageNet", "22.05": "version of Slurm", "23.02": "version of Slurm",
         "23.11": "version of Slurm", "5.3": "billion parameters: 85 GB divided by 16 bytes"}


def value(text):
    return float(text.replace(",", ""))


def numbers(text):
    return [value(number) for number in NUMBER.findall(text)]


def pictures_of(slide):
    """The description of each figure of the slide, and the numbers in the texts of this figure."""
    for description, path, which in PICTURE.findall(slide.body):
        yield description, numbers("\n".join(re.findall(r">([^<]+)<", drawn(os.path.join(ROOT, "docs/slides", path), which))))


def shown_by(slide):
    tables = [line for line in slide.body.split("\n") if line.startswith("|")]
    values = [match[2] for match in VALUE.finditer(slide.body)]
    drawn = [quote.lines_in([]) for quote in slide.quotes() if quote.figure]
    return {number for text in [*map("\n".join, slide.blocks() + drawn), *tables, *values] for number in numbers(text)}


def said_by(slide):
    """The numbers that the slide says, as texts. Its pictures' descriptions are compared with the pictures."""
    prose = VALUE.sub("", without_blocks(slide.body))
    prose = re.sub(r"^\|.*$|<!--.*?-->", "", PICTURE.sub("", prose), flags=re.MULTILINE)
    return said_in(prose + "\n" + slide.notes)


def said_in(text):
    text = NAMES.sub(" ", text)
    folders = os.listdir(os.path.join(ROOT, "exercises")) if "exercise" in text.lower() else []
    for number in NUMBER.findall(text):
        digits = number.replace(",", "")
        is_exercise = any(folder.startswith(number + "-") for folder in folders)
        if ("." in number or len(digits) >= 5 or "," in number) and number not in FACTS and not is_exercise:
            yield number


def agrees(number, shown, here):
    wanted, places = value(number), len(number.partition(".")[2])

    def same(other):
        return any(abs(other / scale - wanted) <= 0.5001 * 10 ** -places for scale in (1, 1e3, 1e6, 1e9))
    if any(map(same, shown)):
        return True
    return any(same(a + b) or same(abs(a - b)) or b and same(a / b) for a in here for b in here)


def main():
    found = 0
    for deck in [Deck(path) for path in sys.argv[1:]] or decks():
        pictures = [picture for slide in deck.slides for picture in pictures_of(slide)]
        shown = set().union(*map(shown_by, deck.slides), *(drawn for _, drawn in pictures))
        for slide in deck.slides:
            here = shown_by(slide)
            for description, drawn in pictures_of(slide):
                for number in said_in(description):
                    if not agrees(number, drawn, ()):
                        print(f"{deck.name}, slide {slide.number}: describes {number}, which is not in the figure")
                        found += 1
            for number in dict.fromkeys(said_by(slide)):
                if not agrees(number, shown, here):
                    print(f"{deck.name}, slide {slide.number}: says {number}, and shows no such number")
                    found += 1
    return found > 0


if __name__ == "__main__":
    sys.exit(main())
