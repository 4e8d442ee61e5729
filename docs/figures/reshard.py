"""A layer in the files of four ranks, and the pieces of three ranks that read them."""
from drawing import COMPUTE, COPY, FOURTH, UPDATE, Figure

PARAMETERS, COLOURS = 12, (COMPUTE, UPDATE, COPY, FOURTH)
LEFT, CELL = 230, 70


def draw():
    f = Figure("Shards of four ranks, read by three", f"A layer of {PARAMETERS} parameters. Four files hold "
               f"{PARAMETERS // 4} each. Each of three ranks reads {PARAMETERS // 3}, from the two files that overlap its piece.", 270)
    for y, ranks, name in ((44, 4, "4 ranks save"), (170, 3, "3 ranks continue")):
        piece = PARAMETERS // ranks
        f.text(LEFT - 24, y + 30, name, 22, "end", bold=True)
        for rank in range(ranks):
            x = LEFT + rank * piece * CELL
            f.text(x + piece * CELL / 2, y - 22, f"file {rank} of 4" if ranks == 4 else f"rank {rank}", 20)
            f.area(x, y - 2, piece * CELL, 64, "#FFFFFF", "#222222", thick=4)
            for at in range(rank * piece, (rank + 1) * piece):
                f.box(LEFT + at * CELL + 4, y + 4, CELL - 8, 52, f"{at}", COLOURS[at // (PARAMETERS // 4)], size=20)
    return f
