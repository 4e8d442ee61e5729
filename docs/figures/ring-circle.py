"""The first half of the ring all-reduce of ring.py, drawn as a circle: which chunk each of four GPUs sends in each round, and the
ranks that are summed in it."""
import math

from drawing import HOST, Figure
from ring import CHUNKS, COLOURS, RANKS, rounds

RADIUS, DISC, PITCH, FIRST, MIDDLE = 136, 38, 372, 188, 232  # pixels


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


def draw():
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
