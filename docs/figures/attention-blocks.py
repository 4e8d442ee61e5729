"""Attention in blocks: a block of queries goes over the blocks of keys, with a running maximum and a running sum
(zoo/kernels/attention_kernels.h)."""
import math

from drawing import COMMUNICATE, COMPUTE, HOST, Figure

BLOCKS, OWN, LEFT, TOP, CELL = 4, 2, 170, 96, 72
SCORES = ((1, 2), (4, 0), (3, 3))  # of one query, in the blocks of keys that it sees


def draw():
    f = Figure("Attention in blocks",
               f"A square of {BLOCKS} blocks of queries and {BLOCKS} of keys; those behind the diagonal are not computed. Each block of "
               "queries goes from left to right, and corrects its sum when a block has a larger score.", 470)
    f.text(LEFT + BLOCKS * CELL / 2, 24, "blocks of keys and values", 20)
    for row in range(BLOCKS):
        f.text(LEFT + (row + 0.5) * CELL, 66, str(row), 20, bold=True)
        f.text(LEFT - 14, TOP + (row + 0.5) * CELL, f"queries {row}", 20, "end", bold=row == OWN)
        for column in range(BLOCKS):
            seen = column <= row
            f.box(LEFT + column * CELL, TOP + row * CELL, CELL - 6, CELL - 6, str(column + 1) if row == OWN and seen else "",
                  COMMUNICATE if row == OWN and seen else COMPUTE if seen else HOST, solid=row == OWN and seen, dashed=not seen, size=20)
    f.box(LEFT, 404, 40, 40, "", HOST, dashed=True)
    f.text(LEFT + 56, 424, "future tokens: not computed", 20, "start")
    columns = (540, 660, 770, 890, 1020)
    for x, name in zip(columns, ("block", "scores", "largest", "factor", "sum")):
        f.text(x, 66, name, 20, bold=True)
    f.text((columns[0] + columns[-1]) / 2, 24, f"a query of block {OWN}", 20)
    largest, total = -math.inf, 0.0
    for block, scores in enumerate(SCORES):
        before, largest = largest, max(largest, *scores)
        factor = math.exp(before - largest)
        total = total * factor + sum(math.exp(score - largest) for score in scores)
        words = (str(block + 1), ", ".join(map(str, scores)), str(largest), f"{factor:.2f}", f"{total:.2f}")
        for x, word in zip(columns, words):
            f.text(x, TOP + (block + 0.5) * CELL, word, 20)
    f.text((columns[0] + columns[-1]) / 2, TOP + 3.6 * CELL,
           "sum and outputs are multiplied by\nfactor = exp(old largest − new largest),\nthen the block's exp(score − largest) are added", 20)
    return f
