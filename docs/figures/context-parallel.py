"""Attention of a long sequence on four ranks: each rank has two pieces of the tokens, one from the beginning and one from the
end, so all compute equally much. This is the division of https://arxiv.org/abs/2407.21783, section 3.3.2."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, UPDATE, Figure

RANKS = 4
PIECES, LEFT, TOP, CELL = 2 * RANKS, 250, 70, 48
COLOURS = (COMPUTE, COMMUNICATE, UPDATE, FOURTH)


def rank_of(piece):
    return min(piece, PIECES - 1 - piece)


def draw():
    f = Figure("Causal attention of a sequence on four ranks",
               f"The tokens are divided into {PIECES} pieces. Rank 0 has the first and the last piece, rank 1 the second and the second "
               "last, and so on. The queries of a piece need the keys and values of this piece and of all pieces before it. So each "
               f"rank computes {PIECES + 1} of the {PIECES * (PIECES + 1) // 2} blocks.")
    f.text(LEFT + PIECES * CELL / 2, 16, "keys and values of the pieces: all ranks gather them", 20)
    for i in range(PIECES):
        colour = COLOURS[rank_of(i)]
        f.text(LEFT + (i + 0.5) * CELL, 48, str(i), 20, bold=True)
        y = TOP + i * CELL
        f.text(LEFT - 14, y + CELL / 2, f"queries of piece {i}", 20, "end")
        for j in range(PIECES):
            f.box(LEFT + j * CELL, y, CELL - 4, CELL - 4, str(rank_of(i)) if j <= i else "", colour if j <= i else HOST,
                  solid=j <= i, dashed=j > i, size=20)
    for rank in range(RANKS):
        y = TOP + 40 + rank * 76
        first, last = rank, PIECES - 1 - rank
        f.box(700, y - 20, 40, 40, str(rank), COLOURS[rank], solid=True, size=20, bold=True)
        f.text(756, y, f"rank {rank}: pieces {first} and {last}, {first + 1} + {last + 1} blocks", 20, "start")
    f.box(700, TOP + 344 - 20, 40, 40, "", HOST, dashed=True)
    f.text(756, TOP + 344, "future tokens: not computed", 20, "start")
    return f
