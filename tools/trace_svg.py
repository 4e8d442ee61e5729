"""Draws the streams and readers of some ranks as an SVG for READMEs and slides; trace.py calls it. The same trace gives the same
bytes."""
import math
import os
import re
import sys
from xml.sax.saxutils import escape, quoteattr

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "author"))
from drawing import FONT, WIDTH as SHOWN, measure  # noqa: E402

WIDTH, LEFT, RIGHT = 900, 132, 24
ROW, GAP, RANK_GAP = 38, 4, 16  # heights
TOP, AXIS, LEGEND = 88, 58, 40
SIZE = 15  # of labels

# Fill and text of each kind of span: the colours of Okabe and Ito, which colour-blind people can tell apart.
KINDS = {
    "forward": ("#56B4E9", "#000", "forward"),
    "backward": ("#0072B2", "#fff", "backward"),
    "update": ("#009E73", "#fff", "update"),
    "other": ("#CC79A7", "#000", "other computing"),
    "read": ("#000", "#fff", "read"),
    "copy": ("#F0E442", "#000", "copy"),
    "collective": ("#E69F00", "#000", "collective"),
    "late": ("url(#late)", "#000", "waits for another rank"),
    "wait": ("#D0D0D0", "#000", "waits for an event"),
}
COLLECTIVES = {"ncclAllReduce": "all-reduce", "ncclAllGather": "all-gather", "ncclReduceScatter": "reduce-scatter",
               "ncclBcast": "broadcast", "ncclBroadcast": "broadcast", "ncclReduce": "reduce"}


def kind_of(span):
    if span.cat in ("collective", "wait", "copy", "read"):
        return span.cat
    words = span.name.split()
    first = words[0].rstrip(":") if words else ""
    if first in ("forward", "backward"):
        return first
    return "update" if first in ("update", "optimizer_step") or span.name.endswith("_step") else "other"


def label_choices(span):
    """Returns labels for the bar, the longest one first."""
    if span.cat == "collective":
        name = span.name.rpartition(": ")[2]
        short = COLLECTIVES.get(name, name)
        size = span.args.get("bytes")
        return ([f"{short} {bytes_text(size)}"] if size else []) + [short, "".join(w[0].upper() for w in short.split("-"))]
    if span.cat == "wait":
        return []
    text = span.scope() or span.name
    words = text.split()
    shorter = [" ".join(words[:2]), words[0][0].upper() + words[1]] if len(words) > 1 and words[1].isdigit() else words[:1]
    return [text] + shorter


def bytes_text(count):
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= size:
            return f"{count / size:.3g} {unit}"
    return f"{count:.0f} B"


def time_text(microseconds):
    return f"{microseconds / 1000:.3f} ms" if microseconds >= 1000 else f"{microseconds:.3g} us"


class Picture:
    """Collects the elements. x(time) and the rows' places are those of the drawing."""

    def __init__(self, begin, end, rows):
        self.begin, self.end, self.elements, self.y = begin, end, [], {}
        self.kinds = {}  # the kinds of spans, with the meanings of their short labels
        y, before = TOP, None
        for rank, row in rows:
            y += RANK_GAP if before not in (None, rank) else 0
            self.y[rank, row] = y
            y, before = y + ROW + GAP, rank
        self.bottom = y - GAP

    def x(self, time):
        inside = min(max(time, self.begin), self.end)
        return LEFT + (inside - self.begin) / (self.end - self.begin) * (WIDTH - LEFT - RIGHT)

    def add(self, text):
        self.elements.append(text)

    def text(self, x, y, text, size=SIZE, anchor="start", fill="#000", more=""):
        width = measure(text, size, "bold" in more)
        self.add(f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}"{more} '
                 f'textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">{escape(text)}</text>')

    def visible(self, begin, end):
        return begin < self.end and end > self.begin

    def box(self, begin, end, y, height, kind, title):
        left, right = self.x(begin), self.x(end)
        self.kinds.setdefault(kind, [])
        edge = ' stroke="#fff" stroke-width="0.6"' if right - left > 3 else ""
        self.add(f'<rect x="{left:.2f}" y="{y}" width="{max(right - left, 0.7):.2f}" height="{height}" '
                 f'fill="{KINDS[kind][0]}"{edge}><title>{escape(title)}</title></rect>')


def draw_span(picture, rank, span, arrived):
    """arrived: when the last rank arrives at a collective, or None."""
    y, kind = picture.y[rank.number, span.row], kind_of(span)
    title = f"{span.name}, {time_text(span.end - span.begin)}"
    if "bytes" in span.args:
        title += f", {bytes_text(span.args['bytes'])}"
    if kind == "wait":
        picture.box(span.begin, span.end, y + ROW // 4, ROW // 2, kind, title)
        return
    begin = span.begin
    if arrived is not None and arrived > begin:
        begin = min(arrived, span.end)
        picture.box(span.begin, begin, y, ROW, "late", f"{title}: waits for another rank")
    if begin < span.end and picture.visible(begin, span.end):
        picture.box(begin, span.end, y, ROW, kind, title)


def groups(picture, rank):
    """Yields (first span, begin, end) of spans with the same label and no visible gap; a group gets one label."""
    run = None
    for span in rank.spans:
        if span.row == 0 or not picture.visible(span.begin, span.end):
            continue
        key = (span.row, span.cat == "collective" and id(span), label_choices(span)[:1])
        if run and run[0] == key and picture.x(span.begin) - picture.x(run[3]) < 3:
            run[3] = span.end
            continue
        if run:
            yield tuple(run[1:])
        run = [key, span, span.begin, span.end]
    if run:
        yield tuple(run[1:])


def explain(span, text):
    """Returns the meaning of a short label for the legend, or ""."""
    if span.cat == "collective":
        return f"{text}: {label_choices(span)[-2]}" if text == label_choices(span)[-1] else ""
    return f"{text[0]}1: layer 1" if re.fullmatch("[A-Z][0-9]+", text) else ""


def draw_labels(picture, rank, arrived):
    for span, begin, end in groups(picture, rank):
        if span.cat == "collective":
            begin = min(max(begin, arrived.get(id(span), begin)), end)
        left, right = picture.x(begin), picture.x(end)
        text = next((t for t in label_choices(span) if measure(t, SIZE) + 6 <= right - left), None)
        if text is None:
            continue
        kind = kind_of(span)
        y, (fill, color, _) = picture.y[rank.number, span.row] + ROW / 2 + SIZE * 0.36, KINDS[kind]
        # The edge around the letters hides the borders of the group's spans.
        picture.text((left + right) / 2, y, text, anchor="middle", fill=color,
                     more=f' stroke="{fill}" stroke-width="4" paint-order="stroke"')
        meaning = explain(span, text)
        if meaning and meaning not in picture.kinds[kind]:
            picture.kinds[kind].append(meaning)


def draw_arrows(picture, rank):
    for arrow in rank.arrows:
        rows = (rank.number, arrow.row), (rank.number, arrow.to_row)
        if arrow.row == arrow.to_row or not all(row in picture.y for row in rows):
            continue
        if arrow.begin < picture.begin or arrow.end > picture.end:
            continue
        down = picture.y[rows[1]] > picture.y[rows[0]]
        y1, y2 = (picture.y[row] for row in rows)
        y1, y2 = (y1 + ROW - 7, y2 + 1) if down else (y1 + 7, y2 + ROW - 1)
        x1, x2 = picture.x(arrow.begin), picture.x(arrow.end)
        middle = (y1 + y2) / 2
        for style in ('stroke="#fff" stroke-width="3.5" opacity="0.7"', 'stroke="#000" stroke-width="1.4" marker-end="url(#head)"'):
            picture.add(f'<path d="M{x1:.1f} {y1} C{x1:.1f} {middle} {x2:.1f} {middle} {x2:.1f} {y2}" fill="none" {style}/>')


def tick_step(length):
    """Returns 1, 2 or 5 times a power of ten, so that the axis has 5 to 12 ticks."""
    power = 10 ** math.floor(math.log10(length / 5))
    return next(power * m for m in (5, 2, 1) if length / (power * m) >= 5)


def draw_axis(picture):
    length = picture.end - picture.begin
    step, unit, scale = tick_step(length), "µs", 1
    if length >= 2000:
        unit, scale = "ms", 1000
    y = picture.bottom + 6
    for i in range(int(length / step + 1e-9) + 1):
        x = picture.x(picture.begin + i * step)
        picture.add(f'<path d="M{x:.1f} {TOP - 6}V{y + 6}" stroke="#000" stroke-width="0.8" opacity="0.18"/>')
        picture.text(x, y + 22, f"{i * step / scale:g}", anchor="middle")
    picture.text(LEFT - 12, y + 22, f"time in {unit}", anchor="end")


def draw_rows(picture, ranks):
    for rank in ranks:
        rows = [row for number, row in picture.y if number == rank.number]
        top = picture.y[rank.number, rows[0]]
        picture.text(12, top + 16, f"rank {rank.number}", more=' font-weight="bold"')
        for row in rows:
            y = picture.y[rank.number, row]
            picture.add(f'<rect x="{LEFT}" y="{y}" width="{WIDTH - LEFT - RIGHT}" height="{ROW}" fill="#F4F4F4"/>')
            picture.text(LEFT - 10, y + (ROW - 6 if len(rows) == 1 else ROW / 2 + 5), rank.row_names.get(row, f"stream {row}"),
                         anchor="end")


def draw_steps(picture, ranks, boundaries):
    """A dashed line at the end of each training step of a rank, and the steps' numbers above the first rank."""
    for rank in ranks:
        rows = [y for (number, _), y in picture.y.items() if number == rank.number]
        for number, (begin, end) in enumerate(boundaries[rank.number], 1):
            if not picture.visible(begin, end):
                continue
            if end < picture.end:
                x = picture.x(end)
                picture.add(f'<path d="M{x:.1f} {min(rows) - 5}V{max(rows) + ROW + 5}" stroke="#000" stroke-width="1.6" '
                            'stroke-dasharray="5 3"/>')
            left, right = picture.x(begin), picture.x(end)
            if rank is ranks[0] and right - left > measure("step 99", SIZE):
                picture.text((left + right) / 2, TOP - 14, f"step {number}", anchor="middle")


def draw_legend(picture, arrows):
    x, y = LEFT, picture.bottom + AXIS
    kinds = [(f"{text} ({', '.join(sorted(picture.kinds[kind]))})" if picture.kinds[kind] else text, fill)
             for kind, (fill, _, text) in KINDS.items() if kind in picture.kinds]
    for text, fill in kinds + [("a stream waited for an event", None)] * arrows:
        if x + 30 + measure(text, SIZE) > WIDTH - RIGHT:
            x, y = LEFT, y + 26
        picture.add(f'<rect x="{x:.1f}" y="{y - 13}" width="22" height="16" fill="{fill}"/>' if fill else
                    f'<path d="M{x:.1f} {y - 5}h20" stroke="#000" stroke-width="1.4" marker-end="url(#head)"/>')
        picture.text(x + 28, y, text)
        x += 28 + measure(text, SIZE) + 24
    return y + LEGEND - 20


HEAD = """<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{shown}" height="{tall}"
 font-family={font} role="img">
<title>{title}</title>
<defs>
<marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0L10 5L0 10z"/></marker>
<pattern id="late" width="8" height="8" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="8" height="8" fill="#fff"/><rect width="4" height="8" fill="#D55E00"/></pattern>
</defs>
<rect width="{width}" height="{height}" fill="#fff"/>
"""


def title_of(run, windows, ranks, boundaries):
    begin, end = min(w[0] for w in windows), max(w[1] for w in windows)
    inside = [i for i, (a, b) in enumerate(boundaries[ranks[0].number], 1) if a >= begin - 1 and b <= end + 1]
    what = f"training step{'s' * (len(inside) > 1)} " + (f"{inside[0]} to {inside[-1]}" if len(inside) > 1 else f"{inside[0]}") \
        if inside else "timeline"
    count = f"{len(run.ranks)} rank{'s' * (len(run.ranks) > 1)}"
    if len(ranks) < len(run.ranks):
        count = f"rank{f's {ranks[0].number} to' * (len(ranks) > 1)} {ranks[-1].number} of {len(run.ranks)}"
    return f"{what} of {count} ({run.clock})"


def draw(run, ranks, windows, boundaries, arrivals):
    """Returns the text of the SVG. windows and boundaries are those of each rank, arrivals those at the collectives."""
    shown = [windows[r.number] for r in ranks]
    begin, end = min(w[0] for w in shown), max(w[1] for w in shown)
    rows = sorted({(r.number, s.row) for r in ranks for s in r.spans if s.row > 0 and s.begin < end and s.end > begin})
    picture = Picture(begin, end, rows)
    draw_rows(picture, [r for r in ranks if any(number == r.number for number, _ in rows)])
    draw_axis(picture)
    for rank in ranks:
        arrived = {id(span): max(arrivals[key].values()) for key, span in rank.collectives().items() if key in arrivals}
        for span in rank.spans:
            if span.row > 0 and picture.visible(span.begin, span.end):
                draw_span(picture, rank, span, arrived.get(id(span)))
        draw_labels(picture, rank, arrived)
    before = len(picture.elements)
    for rank in ranks:
        draw_arrows(picture, rank)
    arrows = len(picture.elements) > before
    draw_steps(picture, ranks, boundaries)
    title = title_of(run, [windows[r.number] for r in ranks], ranks, boundaries)
    picture.text(12, 34, title, size=22, more=' font-weight="bold"')
    picture.elements.insert(0, picture.elements.pop())  # readers of the text meet the title first
    height = draw_legend(picture, arrows)
    head = HEAD.format(width=WIDTH, height=height, shown=SHOWN, tall=round(height * SHOWN / WIDTH), font=quoteattr(FONT),
                       title=escape(title))
    return head + "\n".join(picture.elements) + "\n</svg>\n"
