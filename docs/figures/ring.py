"""The ring all-reduce of step 6 (ring in 06_allreduce_demo/allreduce.c) on four ranks, after each round. Chunks are a to d.
The fill of a cell shows how many ranks are summed in it."""
import math

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, INK, UPDATE, Figure

RANKS, CHUNKS = 4, "abcd"
COLOURS = (COMPUTE, COMMUNICATE, UPDATE, FOURTH)  # of the chunks
RADIUS, DISC, PITCH, FIRST, MIDDLE = 136, 38, 372, 188, 232  # pixels of the circles


def rounds():
    """Yields for the start and for each round: what each rank holds of each chunk, as the ranks that are summed in it,
    and the chunk that each rank has received, or None."""
    held = [[{rank} for _ in CHUNKS] for rank in range(RANKS)]
    yield held, [None] * RANKS
    for n in range(2 * (RANKS - 1)):
        before, held = held, [list(chunks) for chunks in held]
        received = [(rank - n - 1) % RANKS for rank in range(RANKS)]
        for rank, chunk in enumerate(received):
            sent = before[rank - 1][chunk]  # by the rank before; the one before rank 0 is the last one
            held[rank][chunk] = before[rank][chunk] | sent if n < RANKS - 1 else sent
        yield held, received


def panel(f, x, y, state, width, height, pitch, words):
    """Draws the state of all ranks. words: the text of a cell, or None for a fill."""
    held, received = state
    for chunk, letter in enumerate(CHUNKS):
        f.text(x + (chunk + 0.5) * width, y - 42, letter, 18, bold=True)
    for rank in range(RANKS):
        for chunk, colour in enumerate(COLOURS):
            left, top, summed = x + chunk * width, y + rank * pitch, held[rank][chunk]
            complete = len(summed) == RANKS
            if words:
                f.area(left, top, width - 4, height, colour.line if complete else colour.pale, colour.line)
                f.text(left + width / 2 - 2, top + height / 2, words(summed), 18, bold=complete,
                       colour=colour.letters if complete else INK)
            else:
                level = height * len(summed) / RANKS
                f.area(left, top, width - 4, height, colour.pale)
                f.area(left, top + height - level, width - 4, level, colour.line)
            if received[rank] == chunk:
                middle = left + width / 2 - 2
                f.area(left, top, width - 4, height, "none", INK, thick=3)
                if rank:
                    f.arrow((middle, top - pitch + height + 3), (middle, top - 1), thick=2.5)
                else:  # from the last rank, around the table
                    last = y + (RANKS - 1) * pitch + height
                    f.arrow((middle, last + 3), (middle, last + 14), (x - 7, last + 14), (x - 7, top - 24), (middle, top - 24),
                            (middle, top - 1), thick=2.5)


def names(f, y, height, pitch):
    f.text(16, y - 42, "chunk", 18, "start")
    for rank in range(RANKS):
        f.text(16, y + rank * pitch + height / 2, f"rank {rank}", 20, "start", bold=True)


def half(first, title, description):
    """A figure of the start and the rounds of the reduce-scatter, or of the all-gather."""
    def words(summed):
        return "sum" if len(summed) == RANKS else "" if first else "+".join(map(str, sorted(summed)))
    f = Figure(title, description)
    states = list(rounds())[first:first + RANKS]
    for i, (held, received) in enumerate(states):
        x = 96 + i * 257
        f.text(x + 120, 24, f"round {first + i}" if i else f"after round {first}" if first else "start", 20, bold=True)
        panel(f, x, 112, (held, received if i else [None] * RANKS), 61, 62, 100, words)
    names(f, 112, 62, 100)
    return f


def draw():
    f = Figure("A ring all-reduce on four ranks",
               "Seven tables, one after each round. Every rank divides its array into four chunks, and in each round "
               "sends one chunk to the next rank. In rounds 1 to 3, a rank adds what it receives: then each rank holds "
               "one chunk that is summed over all ranks. In rounds 4 to 6, a rank copies what it receives: then every "
               "rank holds all sums.")
    for i, state in enumerate(rounds()):
        x = 94 + i * 144 + (18 if i >= RANKS else 0)
        f.text(x + 62, 76, f"round {i}" if i else "start", 18)
        panel(f, x, 142, state, 32, 56, 92, None)
    f.brace(94 + 144, 94 + 4 * 144 - 18, 48, "reduce-scatter: add", up=True, bold=True)
    f.brace(94 + 4 * 144 + 18, 94 + 7 * 144, 48, "all-gather: copy", up=True, bold=True)
    f.line((94 + 4 * 144, 56), (94 + 4 * 144, 496), colour=HOST, dashed=True)
    names(f, 142, 56, 92)
    f.text(94, 511, "The fill shows how many of the four ranks are summed.", 18, "start")
    return f


def place(turn, x, radius=RADIUS):
    """A point on the circle around x. turn: 0 at the top, 1 after a whole circle."""
    angle = 2 * math.pi * (turn - 0.25)
    return x + radius * math.cos(angle), MIDDLE + radius * math.sin(angle)


def arc(f, x, begin, end, colour):
    """An arrow on the circle."""
    (x1, y1), (x2, y2), (tip_x, tip_y) = place(begin, x), place(end, x), place(end + 0.03, x)
    f.add("path", d=f"M{x1:.1f} {y1:.1f}A{RADIUS} {RADIUS} 0 0 1 {x2:.1f} {y2:.1f}", fill="none", stroke=colour.line, stroke_width=6)
    dx, dy = (tip_x - x2) / 2, (tip_y - y2) / 2
    f.polygon([(tip_x, tip_y), (x2 - dy, y2 + dx), (x2 + dy, y2 - dx)], colour)


def circle():
    """The reduce-scatter in a circle: which chunk each GPU sends in each round, and the ranks that are summed in it."""
    f = Figure("The rounds of a reduce-scatter in a ring", "Four GPUs in a circle; each sends one chunk to the next one, and GPU 3 sends to GPU 0. "
               "In each round, all four links are busy. The numbers are the ranks whose values are in the sum that is sent.", 456)
    states = list(rounds())
    for n in range(RANKS - 1):
        centre, (held, _), (_, received) = FIRST + n * PITCH, states[n], states[n + 1]
        f.text(centre, 24, f"round {n + 1}", 24, bold=True)
        for rank in range(RANKS):
            turn, chunk = rank / RANKS, received[(rank + 1) % RANKS]
            arc(f, centre, turn + 0.055, turn + 1 / RANKS - 0.085, COLOURS[chunk])
            summed = "+".join(str(other) for other in sorted(held[rank][chunk]))
            x, y = place(turn + 0.5 / RANKS, centre, RADIUS - 34)
            f.text(x, y, f"{CHUNKS[chunk]}:\n{summed}", 20, bold=True, anchor="end" if rank < 2 else "start")
            f.disc(*place(turn, centre), DISC, HOST, f"GPU {rank}", solid=False, size=20, bold=True)
    f.text(20, 436, "a: 0+1 is chunk a with the values of ranks 0 and 1. After round 3, each GPU has one complete chunk.", 20, "start")
    return f


pictures = {
    "circle": circle,
    "reduce-scatter": lambda: half(
        0, "Ring reduce-scatter on four ranks", "The start and three rounds. In each round, every rank sends one chunk to the "
        "next rank, which adds it to its own. After round 3, rank 0 holds the sum of chunk b, rank 1 of c, rank 2 of d, rank 3 of a."),
    "all-gather": lambda: half(
        3, "Ring all-gather on four ranks", "The state after the reduce-scatter, and three rounds. In each round, every rank sends "
        "the chunk of the sum that it received last to the next rank, which copies it. After round 6, every rank holds all four sums.")}
