"""A pair of dense layers that two ranks divide (09_tensor): the first matrix by columns, the second one by rows."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Figure

RANKS, TOP, ROW = 2, 60, 210
BATCH, WIDTH, HIDDEN = 70, 90, 150  # pixels: the batch of inputs is [BATCH, WIDTH], the first matrix [WIDTH, HIDDEN]
COLOURS = (COMPUTE, UPDATE)  # of what belongs to one rank only


def matrix(f, x, middle, width, height, colour, part=None, columns=True):
    """A matrix with its parts; part: the only one that this rank has."""
    y = middle - height / 2
    f.area(x, y, width, height, "none" if part is not None else colour.pale, HOST.line if part is not None else colour.line)
    if part is not None:
        if columns:
            f.area(x + part * width / RANKS, y, width / RANKS, height, colour.line)
        else:
            f.area(x, y + part * height / RANKS, width, height / RANKS, colour.line)


def draw():
    f = Figure("A pair of matrices that two ranks divide",
               "Both ranks have all inputs X. Of the first matrix, rank 0 has the left half of the columns, and rank 1 the right "
               "half, so each of them computes half of the hidden values, and attention or an activation of them. Of the second "
               "matrix, rank 0 has the upper half of the rows, and rank 1 the lower half. Each rank multiplies its hidden values by "
               "its rows: this is a share of each output. An all-reduce adds up the shares, so both ranks have all outputs Y.")
    for x, name in ((132, "inputs X"), (292, "first matrix"), (478, "hidden values"), (688, "second matrix"),
                    (842, "shares of Y"), (1035, "outputs Y")):
        f.text(x, 22, name, 20, bold=True)
    for rank, colour in enumerate(COLOURS):
        middle = TOP + 80 + rank * ROW
        f.text(8, middle, f"rank {rank}", 20, "start", bold=True)
        matrix(f, 87, middle, WIDTH, BATCH, COPY)
        f.text(195, middle, "×", 26)
        matrix(f, 217, middle, HIDDEN, WIDTH, colour, rank)
        f.text(387, middle, "=", 26)
        matrix(f, 403, middle, HIDDEN, BATCH, colour, rank)
        f.text(478, middle + 60, "GELU or attention", 18)
        f.text(585, middle, "×", 26)
        matrix(f, 643, middle, WIDTH, HIDDEN, colour, rank, columns=False)
        f.text(767, middle, "=", 26)
        f.area(797, middle - BATCH / 2, WIDTH, BATCH, colour.pale, colour.line, dashed=True)
        f.arrow((890, middle), (922, middle), colour=COMMUNICATE)
        f.arrow((958, middle), (988, middle), colour=COMMUNICATE)
        matrix(f, 990, middle, WIDTH, BATCH, COPY)
    f.box(924, TOP + 50, 32, ROW + 60, "+", COMMUNICATE, size=26, bold=True)
    f.text(940, TOP + ROW + 130, "all-reduce", 18)
    y = TOP + 2 * ROW + 12
    for x, width, colour, text in ((8, 30, COMPUTE, "only rank 0 has these values"), (350, 30, UPDATE, "only rank 1"),
                                   (560, 30, COPY, "both ranks have all values")):
        f.area(x, y, width, 24, colour.pale if colour is COPY else colour.line, colour.line)
        f.text(x + width + 10, y + 12, text, 18, "start")
    return f
