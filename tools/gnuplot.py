"""Draws with gnuplot, for plots.py and rehearse.py. The colours are those of Okabe and Ito, which colour-blind people can
tell apart; each line also has its own dashes and points."""
import shutil
import subprocess

import files

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
POINTS = (7, 5, 9, 13, 4, 6, 2)
HEAD = """
set encoding utf8
set border 3 linecolor rgb "#404040"
set tics nomirror
set grid linecolor rgb "#d8d8d8" linewidth 1 dashtype solid
"""


def missing():
    """Returns the line that says how to get gnuplot, or None if it is here."""
    return None if shutil.which("gnuplot") else \
        "gnuplot is not installed, so nothing is drawn: sudo apt-get install gnuplot-nox, or conda install gnuplot"


def line(i):
    """The look of the i-th line without points."""
    return f"linecolor rgb '{COLOURS[i]}' linewidth 2.5 dashtype {i % 5 + 1}"


def style(i):
    """The look of the i-th line with points."""
    return f"{line(i)} pointtype {POINTS[i]} pointsize 0.9"


def quoted(text):
    """A string of gnuplot; with two quotes in place of one, nothing in it is special."""
    return "'" + text.replace("'", "''") + "'"


def data(name, rows):
    """A block of data, which plot calls $name."""
    return f"${name} << END\n" + "".join(" ".join(str(x) for x in row) + "\n" for row in rows) + "END\n"


def draw(stem, script, width=960, height=540):
    """Writes stem.svg and stem.png."""
    font = "font 'Helvetica,15'"
    for suffix, terminal in (("svg", f"svg size {width},{height} {font} background rgb 'white'"),
                             ("png", f"pngcairo size {2 * width},{2 * height} {font} fontscale 2 linewidth 2 pointscale 2")):
        commands = f"set terminal {terminal} noenhanced\n{HEAD}{script}"
        drawn = subprocess.run(["gnuplot"], input=commands.encode(), check=True, stdout=subprocess.PIPE)
        files.write(f"{stem}.{suffix}", drawn.stdout)
