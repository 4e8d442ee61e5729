"""What two ranks hold of the values in a block with sequence parallelism (09_tensor, --sequence 1): figure 6 of
https://arxiv.org/abs/2205.05198."""
from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure

SIDE, TOPS = 110, (70, 240)
COLOURS = (COMPUTE, UPDATE)
STATES = ((120, "normalisation", "rows"), (345, "inputs of the\nfirst matrix", "all"), (570, "GELU or\nattention", "columns"),
          (795, "shares of\nall outputs", "shares"), (1020, "dropout, sum\nof the block", "rows"))


def draw():
    f = Figure("Sequence parallelism on two ranks",
               "Each square holds the values of all tokens: its rows are tokens. In normalisation, dropout and the sum of a block, "
               "each rank has half of the rows. An all-gather gives both ranks all rows. The first matrix gives each rank half of "
               "the columns. The second matrix gives each rank a share of all values, and a reduce-scatter sums the shares and "
               "leaves each rank its half of the rows.", height=470)
    for x, name, held in STATES:
        f.text(x, 34, name, 18, bold=True)
        for rank, top in enumerate(TOPS):
            left, colour = x - SIDE / 2, COLOURS[rank]
            f.area(left, top, SIDE, SIDE, "none", HOST.line)
            if held == "rows":
                f.area(left, top + rank * SIDE / 2, SIDE, SIDE / 2, colour.line)
            elif held == "columns":
                f.area(left + rank * SIDE / 2, top, SIDE / 2, SIDE, colour.line)
            else:
                f.area(left, top, SIDE, SIDE, colour.pale, colour.line, dashed=held == "shares")
    for rank, top in enumerate(TOPS):
        f.text(6, top + SIDE / 2, "rank\n" + str(rank), 18, "start", bold=True)
    for i, (name, colour) in enumerate((("all-gather", COMMUNICATE), ("first\nmatrix", HOST), ("second\nmatrix", HOST),
                                        ("reduce-\nscatter", COMMUNICATE))):
        begin, end = STATES[i][0] + SIDE / 2 + 4, STATES[i + 1][0] - SIDE / 2 - 4
        for top in TOPS:
            f.arrow((begin, top + SIDE / 2), (end, top + SIDE / 2), colour=colour)
        f.text((begin + end) / 2, TOPS[0] + SIDE + 30, name, 18, bold=colour is COMMUNICATE)
    y = TOPS[1] + SIDE + 50
    f.legend(70, y + 12, (("only rank 0", COMPUTE), ("only rank 1", UPDATE)))
    f.text(510, y + 12, "pale: both ranks; dashed: each rank has a share to sum", 18, "start")
    f.text(70, y + 46, "Each row of a square is a token, and each column one of its values.", 18, "start")
    return f
