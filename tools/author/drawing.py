#!/usr/bin/env python3
"""Draws figures as SVG; the same source gives the same bytes on every machine. A source, such as docs/figures/fork.py,
has a function draw that returns a Figure. Its dictionary pictures, if any, has more of these functions: speedup.py#weak is
pictures["weak"]. If a table lies beside it, such as docs/figures/speedup.txt or speedup-weak.txt, the function takes its text.
This program writes the figure of draw as NAME.svg, unless a text is too small, leaves its box, or touches a line or another text."""
import argparse
import math
import os
import re
import runpy
import sys
import xml.etree.ElementTree as ElementTree
from typing import NamedTuple
from xml.sax.saxutils import escape

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # tools/
import files  # noqa: E402
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WIDTH = 1120  # of a figure on a slide
SMALLEST = 18  # size of a text in a figure of this width, so that the last row can read it
# Each text says how wide it is, so a browser squeezes the letters of another font into the width of these. Arial, Liberation
# Sans and Nimbus Sans have the widths of Helvetica. A machine without them, such as a bare Debian, has DejaVu Sans.
FONT = "Helvetica, Arial, 'Liberation Sans', 'Nimbus Sans', 'DejaVu Sans', sans-serif"
CODE = "Menlo, 'DejaVu Sans Mono', Consolas, monospace"
WIDTHS = {191: "'", 222: "ijl", 260: "|", 278: " !,./:;I[]\\ft", 333: "()-r`", 334: "{}", 355: '"', 389: "*", 469: "^",
          500: "Jcksvxyz", 584: "+<=>~×", 611: "FTZ", 667: "&ABEKPSVXY", 722: "CDHNRUw", 778: "GOQ", 833: "Mm", 889: "%",
          944: "W", 1015: "@"}  # of Helvetica's letters, per 1000 of their size; all others have 556
WIDTH_OF = {letter: width for width, letters in WIDTHS.items() for letter in letters}
INK, WHITE = "#222222", "#FFFFFF"


class Colour(NamedTuple):
    """line: of borders, arrows and solid areas; pale: of other areas; letters: of a text in a solid area."""
    line: str
    pale: str
    letters: str = INK


# The colours of Okabe and Ito, which colour-blind people can tell apart. The names say what they mean in most figures.
COMPUTE = Colour("#0072B2", "#D9EAF4", WHITE)
COMMUNICATE = Colour("#D55E00", "#FBE6D9", "#000000")
UPDATE = Colour("#009E73", "#D9F1EA")
COPY = Colour("#56B4E9", "#E4F3FC")  # memory, and copies between memories
HOST = Colour("#8A8A8A", "#F1F1F1")  # processes and machines, and whatever is idle
FOURTH = Colour("#CC79A7", "#F8EAF2")
PLAIN = Colour(INK, WHITE, WHITE)
LOST = Colour("#B00020", "#F6D9DE", WHITE)  # whatever dies


def measure(text, size, bold=False, code=False):
    """The width of a text in pixels."""
    if code:
        return 0.602 * size * len(text)
    return size * sum(WIDTH_OF.get(letter, 556) for letter in text) / 1000 * (1.06 if bold else 1)


def number(value):
    return f"{round(value, 1):g}"


def read(path):
    """The text of a file of the repository."""
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def drawn(path, word=None, table=None):
    """The SVG of a source. word: which of its pictures. table: in place of the one beside the source."""
    folder, stem = os.path.dirname(os.path.abspath(path)), os.path.splitext(path)[0]
    if folder not in sys.path:
        sys.path.insert(0, folder)  # a source may import another one
    source = runpy.run_path(path)
    draw = source.get("pictures", {}).get(word) if word else source["draw"]
    if not draw:
        sys.exit(f"error: {os.path.relpath(path, ROOT)} has no picture {word}: use a word of its pictures")
    table = table or (f"{stem}-{word}.txt" if word else f"{stem}.txt")
    return draw(*([read(os.path.abspath(table))] if os.path.exists(table) else [])).svg()


def log_scale(least, most, begin, end):
    """Returns a function: the place of a value on an axis from begin to end, which is logarithmic."""
    return lambda value: begin + (end - begin) * math.log(value / least) / math.log(most / least)


class Figure:
    """Places are in pixels from the top left corner. The y of a text is the middle of its letters."""

    def __init__(self, title, description, height=520, width=WIDTH):
        self.title, self.description, self.width, self.height, self.elements = title, description, width, height, []

    def add(self, tag, content=None, **attributes):
        words = "".join(f' {name.replace("_", "-")}="{number(v) if isinstance(v, (int, float)) else v}"'
                        for name, v in attributes.items() if v is not None)
        self.elements.append(f"<{tag}{words}/>" if content is None else f"<{tag}{words}>{escape(content)}</{tag}>")

    def text(self, x, y, text, size=20, anchor="middle", bold=False, code=False, colour=INK):
        """A text with several lines is centred around y. anchor: start, middle or end, which x is."""
        lines = text.split("\n")
        for i, line in enumerate(lines):
            middle = y + (i - (len(lines) - 1) / 2) * 1.25 * size
            self.add("text", line, x=x, y=middle + 0.35 * size, font_size=size, text_anchor=anchor, fill=colour,
                     font_weight="bold" if bold else None, font_family=CODE if code else None,
                     textLength=measure(line, size, bold, code), lengthAdjust="spacingAndGlyphs")

    def area(self, x, y, width, height, fill, line=None, dashed=False, thick=2, corner=0):
        self.add("rect", x=x, y=y, width=width, height=height, fill=fill, stroke=line, rx=corner or None,
                 stroke_width=thick if line else None, stroke_dasharray="7 5" if dashed else None)

    def box(self, x, y, width, height, text="", colour=PLAIN, dashed=False, solid=False, thick=2, **style):
        """A rectangle with a text in its middle. solid: filled with the colour of the line, as a whole."""
        self.area(x, y, width, height, colour.line if solid else colour.pale, colour.line, dashed, thick, corner=6)
        if text:
            self.text(x + width / 2, y + height / 2, text, colour=colour.letters if solid else INK, **style)

    def group(self, x, y, width, height, text, colour=HOST, **style):
        """A box around others, with its name at the top left."""
        self.area(x, y, width, height, colour.pale, colour.line, corner=8)
        self.text(x + 16, y + 22, text, anchor="start", **style)

    def line(self, *points, colour=PLAIN, thick=2, dashed=False):
        self.add("path", d="M" + "L".join(f"{number(x)} {number(y)}" for x, y in points), fill="none", stroke=colour.line,
                 stroke_width=thick, stroke_linejoin="round", stroke_dasharray="7 5" if dashed else None)

    def cross(self, x, y, size=7):
        for side in (-size, size):
            self.line((x - side, y - size), (x + side, y + size), colour=LOST, thick=size / 4 + 1.5)

    def polygon(self, corners, colour):
        self.add("polygon", points=" ".join(f"{number(x)},{number(y)}" for x, y in corners), fill=colour.line)

    def arrow(self, *points, colour=PLAIN, thick=2.5, dashed=False, both=False):
        """A line through the points with a head at the last one, and with both also at the first one."""
        points = list(points)
        for end, before in [(-1, -2), (0, 1)][:1 + both]:
            (x, y), (from_x, from_y) = points[end], points[before]
            length = math.hypot(x - from_x, y - from_y)
            dx, dy = (x - from_x) / length, (y - from_y) / length
            back = 4 * thick + 1  # the length of the head
            self.polygon([(x, y), (x - back * dx - back * dy / 2, y - back * dy + back * dx / 2),
                          (x - back * dx + back * dy / 2, y - back * dy - back * dx / 2)], colour)
            points[end] = x - back * dx * 0.9, y - back * dy * 0.9
        self.line(*points, colour=colour, thick=thick, dashed=dashed)

    def brace(self, left, right, y, text="", up=False, colour=PLAIN, **style):
        """A brace below things between left and right (up: above them), with a text behind its tip."""
        d, middle = (-10 if up else 10), (left + right) / 2
        self.add("path", d=f"M{number(left)} {number(y)}q0 {d} 12 {d}H{number(middle - 10)}q10 0 10 {d}"
                 f"q0 {-d} 10 {-d}H{number(right - 12)}q12 0 12 {-d}", fill="none", stroke=colour.line, stroke_width=2)
        if text:
            self.text(middle, y + 2 * d + (-14 if up else 14), text, **style)

    def legend(self, x, y, entries):
        """Squares with their names, in one row. entries: (text, colour), or (text, colour, False) for a pale square."""
        for text, colour, *solid in entries:
            self.area(x, y - 12, 28, 24, *([colour.pale, colour.line] if solid == [False] else [colour.line]))
            self.text(x + 38, y, text, 18, "start")
            x += 70 + measure(text, 18)

    def lane(self, x, y, height, scale, name, end, works):
        """A row of a timeline: its name, a grey ground until end, and works: (begin, end, text, colour, whether it is solid)."""
        self.text(10, y + height / 2, name, 18, "start")
        self.area(x, y, end * scale, height, HOST.pale)
        for begin, stop, text, colour, solid in works:
            self.area(x + begin * scale, y, (stop - begin) * scale, height, colour.line if solid else colour.pale, colour.line, thick=1)
            self.text(x + (begin + stop) / 2 * scale, y + height / 2, text, 18, colour=colour.letters if solid else INK)

    def bar(self, x, y, height, scale, parts, total="", name=""):
        """Parts one behind the other, with a name before them and their total behind them. parts: (value, colour) or (value,
        colour, text), where a text that is too long is left out. scale: pixels for each unit of a value."""
        if name:
            self.text(x - 14, y + height / 2, name, 20, "end")
        for value, colour, *text in parts:
            self.area(x, y, value * scale, height, colour.line)
            if text and measure(text[0], 20) + 12 < value * scale:
                self.text(x + value * scale / 2, y + height / 2, text[0], 20, colour=colour.letters)
            x += value * scale
        if total:
            self.text(x + 12, y + height / 2, total, 20, "start", bold=True)

    def disc(self, x, y, radius, colour, text="", solid=True, **style):
        self.add("circle", cx=x, cy=y, r=radius, fill=colour.line if solid else colour.pale, stroke=colour.line,
                 stroke_width=2)
        if text:
            self.text(x, y, text, colour=colour.letters if solid else INK, **style)

    def svg(self):
        shown = round(self.height * WIDTH / self.width)  # each figure is shown with the same width
        head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{WIDTH}" ' \
               f'height="{shown}"\n font-family="{FONT}" role="img" aria-labelledby="title desc">\n' \
               f'<title id="title">{escape(self.title)}</title>\n<desc id="desc">{escape(self.description)}</desc>\n' \
               f'<rect width="{self.width}" height="{self.height}" fill="{WHITE}"/>\n'
        return head + "\n".join(self.elements) + "\n</svg>\n"


def bars(title, about, rows, left, width, entries=(), top=6, pitch=70, height=54, limit=None):
    """A figure of horizontal bars. rows: (name, parts, total), as bar takes them. width: of the longest bar. entries: of the
    legend above, if top leaves room for it. limit: (value, text) of a dashed line through all bars."""
    scale = width / max(sum(value for value, *_ in parts) for _, parts, _ in rows)
    words = {colour: f"{text} " for text, colour, *_ in entries}
    f = Figure(title, " ".join([about] + [f"{' '.join(name.split())}: " + ", ".join(
        f"{words.get(colour, '')}{value:,.4g}" for value, colour, *_ in parts) + f"; {total}" * bool(total) + "." for name, parts, total in rows]),
        top + pitch * len(rows) + (40 if limit else 0))
    f.legend(left, 24, entries)
    if limit:
        end, bottom = left + limit[0] * scale, top + pitch * len(rows)
        f.line((end, top - 14), (end, bottom), colour=HOST, thick=3, dashed=True)
        f.text(end, bottom + 18, limit[1], 20)
    for i, (name, parts, total) in enumerate(rows):
        f.bar(left, top + pitch * i, height, scale, parts, total, name)
    return f


MARKS = {"square": [(-7, -7), (7, -7), (7, 7), (-7, 7)], "triangle": [(0, -9), (9, 7), (-9, 7)],
         "diamond": [(0, -10), (10, 0), (0, 10), (-10, 0)]}  # corners around the point


class Axes:
    """Curves over an x axis, and a y axis from 0 to top. The ticks have equal distances, unless place gives the place of any value
    on the x axis. names: of the two axes."""

    def __init__(self, figure, x, y, width, height, ticks, top, step, names, place=None):
        self.figure, self.left, self.bottom, self.width, self.height, self.ticks, self.top = \
            figure, x, y + height, width, height, ticks, top
        self.x = place or self.x
        for i in range(round(top / step) + 1):
            level = self.y(i * step)
            figure.line((x, level), (x + width, level), colour=HOST if i == 0 else Colour("#DDDDDD", WHITE), thick=1.5)
            figure.text(x - 12, level, f"{i * step:g}", 18, "end")
        for tick in ticks:
            figure.text(self.x(tick), self.bottom + 20, tick if isinstance(tick, str) else f"{tick:,}", 18)
        figure.text(x + width / 2, self.bottom + 48, names[0], 20)
        figure.text(x - 52, y - 34, names[1], 20, "start")

    def x(self, tick):
        return self.left + (self.ticks.index(tick) + 0.5) * self.width / len(self.ticks)

    def y(self, value):
        return self.bottom - value / self.top * self.height

    def curve(self, values, colour, mark, dashed=False):
        """values: (x, y) in order. mark: a circle or one of MARKS, so that no curve is known by its colour alone."""
        points = [(self.x(a), self.y(b)) for a, b in values]
        self.figure.line(*points, colour=colour, thick=3, dashed=dashed)
        for x, y in points:
            if mark == "circle":
                self.figure.disc(x, y, 7, colour)
            else:
                self.figure.polygon([(x + a, y + b) for a, b in MARKS[mark]], colour)


class Area(NamedTuple):
    left: float
    top: float
    right: float
    bottom: float

    def holds(self, other, margin=0.0):
        return self.left + margin <= other.left and other.right <= self.right - margin and \
            self.top <= other.top and other.bottom <= self.bottom

    def touches(self, other):
        return self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom


def area_of_text(element):
    size, width = float(element.get("font-size")), float(element.get("textLength"))
    left = float(element.get("x")) - width * {"start": 0, "middle": 0.5, "end": 1}[element.get("text-anchor")]
    baseline = float(element.get("y"))
    return Area(left, baseline - 0.75 * size, left + width, baseline + 0.05 * size)  # the letters without descenders


def points_on(path):
    """Yields points on a path of straight lines, 3 pixels apart."""
    ends = [tuple(map(float, pair.split())) for pair in re.split("[ML]", path)[1:]]
    for (x1, y1), (x2, y2) in zip(ends, ends[1:]):
        count = int(math.hypot(x2 - x1, y2 - y1) / 3) + 1
        yield from ((x1 + (x2 - x1) * i / count, y1 + (y2 - y1) * i / count) for i in range(count + 1))


def faults(svg):
    """Returns lines that say what is wrong with a figure."""
    root = ElementTree.fromstring(svg)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    width, height = map(float, root.get("viewBox").split()[2:])
    found = [f"it has no {tag}" for tag in ("title", "desc") if not (root.findtext(tag) or "").strip()]
    canvas, boxes, lines = Area(0, 0, width, height), [], []
    for element in root.iter():
        if element.tag == "rect":
            x, y = float(element.get("x", 0)), float(element.get("y", 0))
            box = Area(x, y, x + float(element.get("width")), y + float(element.get("height")))
            boxes.append(box)
            if element.get("fill") != "none":  # it hides the lines behind it
                lines = [(x, y) for x, y in lines if not box.holds(Area(x, y, x, y))]
        elif element.tag == "path" and re.fullmatch("[-ML0-9. ]+", element.get("d")):
            lines += points_on(element.get("d"))
    found += [f"a box leaves the picture at {b.left:g}, {b.top:g}" for b in boxes if not canvas.holds(b)]
    placed = []
    for element in root.iter("text"):
        words, area = element.text, area_of_text(element)
        if float(element.get("font-size")) < SMALLEST * width / WIDTH:
            found.append(f'"{words}" is too small')
        x, y = (area.left + area.right) / 2, (area.top + area.bottom) / 2
        middle = Area(x, y, x, y)
        around = min((b for b in boxes if b.holds(middle)), default=canvas,
                     key=lambda b: (b.right - b.left) * (b.bottom - b.top))
        if not around.holds(area, 0 if around == canvas else 2):
            found.append(f'"{words}" leaves its box' if around != canvas else f'"{words}" leaves the picture')
        found += [f'"{words}" touches "{other}"' for other, place in placed if place.touches(area)]
        if any(area.left < x < area.right and area.top < y < area.bottom for x, y in lines):
            found.append(f'"{words}" touches a line')
        placed.append((words, area))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", metavar="FILE", help="sources of figures, such as docs/figures/fork.py")
    parser.add_argument("--out", metavar="FOLDER", help="where the figures go (default: beside their sources)")
    options = parser.parse_args()
    failed = False
    for path in options.files:
        svg = drawn(path)
        found = faults(svg)
        for fault in found:
            print(f"error: {path}: {fault}", file=sys.stderr)
        failed |= bool(found)
        if not found:
            name = os.path.splitext(os.path.basename(path))[0]
            files.write(os.path.join(options.out or os.path.dirname(path), f"{name}.svg"), svg)
    sys.exit(failed)


if __name__ == "__main__":
    main()
