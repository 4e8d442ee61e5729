#!/usr/bin/env python3
"""Shows a slide: runs the commands whose output it quotes, as tools/author/record.py does, and prints the lines that the slide
shows. If it has a chart, the chart is drawn from this run, and opened where there is a screen. SLIDE is the number of a deck and
of a slide, such as 1.26. Without it, the slides with commands are listed. The commands run in a new folder, such as
build/demo/1.26, with links to the course, so a demo finds no files of an older one."""
import argparse
import os
import re
import shutil
import subprocess
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "author"))
import files  # noqa: E402
from record import FIGURES, NOTES, copy_of_steps, is_dots, same_words  # noqa: E402
from render import ROOT, VALUE  # noqa: E402
from slides import BadDeck, decks, drawn  # noqa: E402


def build(commands):
    """Makes the programs that the commands name, and the launcher, which a script may start for them."""
    programs = sorted({"03_multigpu_launcher/launch", *re.findall(r"\b0\d_\w+/[a-z]+\b(?!\.)", commands)})
    if subprocess.run(["make", "-s", "QUIET=@", "DEVICE=cpu", *(f"build/cpu/{program}" for program in programs)],
                      cwd=ROOT, check=False).returncode:
        sys.exit("error: a program of this slide was not built: see the lines above")


def viewer():
    """The program that opens a picture, or None without a screen."""
    return (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) and shutil.which("xdg-open")


def shows(quoted, line):
    """Whether a slide with these lines of output shows that line: dots stand for others, and the launcher's are left out."""
    if any(map(is_dots, quoted)):
        return any(same_words(other, line) for other in quoted)
    return any(map(NOTES.match, quoted)) or not NOTES.match(line)


def run(commands, quoted, folder):
    """Prints the commands and, as it comes, what the slide shows of their output. Returns all of it."""
    print(commands, flush=True)
    printed = []
    with subprocess.Popen(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, "DEVICE": "cpu"}) as shell:
        for line in shell.stdout:
            if shows(quoted, line.rstrip("\n")):
                print(line, end="", flush=True)
            printed.append(line)
    if shell.returncode:
        sys.exit(f"error: the commands ended with status {shell.returncode}")
    return "".join(printed)


def draw(name, printed, folder):
    """Draws the figure of that name from what its commands have printed."""
    table, picture = (os.path.join(folder, name + suffix) for suffix in (".txt", ".svg"))
    files.write(table, printed)
    files.write(picture, drawn(os.path.join(FIGURES, name + ".py"), table))
    print(f"\n{os.path.relpath(picture, ROOT)} shows these numbers" + ("" if viewer() else ": open it in a browser"))
    if viewer():
        subprocess.run([viewer(), picture], stderr=subprocess.DEVNULL, check=False)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", metavar="FOLDER", help="the built programs (by default, make builds them in build/cpu)")
    parser.add_argument("slide", nargs="?", metavar="SLIDE")
    options = parser.parse_args()
    shown = {deck.address(slide): slide for deck in decks() for slide in deck.slides if slide.quotes()}
    if not options.slide:
        for address, slide in shown.items():
            print(f"make demo S={address:<5} {VALUE.sub(lambda value: value[2], slide.title)}")
        return
    if options.slide not in shown:
        sys.exit(f"error: there is no slide {options.slide} with commands; make demo lists them")
    slide = shown[options.slide]
    print(f"Slide {options.slide}: {VALUE.sub(lambda value: value[2], slide.title)}\n", flush=True)
    if not options.programs:
        build("".join(quote.commands for quote in slide.quotes()))
    folder = os.path.join(ROOT, "build", "demo", options.slide)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    copy_of_steps(folder, options.programs or "build/cpu")
    for quote in slide.quotes():
        chart = quote.figure and viewer()
        printed = run(quote.commands, ["..."] if chart else quote.lines_in(slide.source.split("\n")), folder)
        if quote.figure:
            draw(quote.figure, printed, folder)


if __name__ == "__main__":
    try:
        main()
    except BadDeck as error:
        sys.exit(f"error: {error}")
