"""Two matrices of a feed-forward block on two ranks: the first is divided by columns, the second by rows, as in
https://arxiv.org/abs/1909.08053, section 3."""
from drawing import COMMUNICATE, COMPUTE, HOST, Figure

SIZE, TOPS = 130, (56, 276)


def matrix(f, x, y, name, part, rank, columns):
    """A matrix of which this rank stores one half."""
    half = SIZE / 2
    for i in range(2):
        place = (x + i * half, y, half, SIZE) if columns else (x, y + i * half, SIZE, half)
        mine = i == rank
        f.box(*place, part if mine else "", COMPUTE if mine else HOST, solid=mine, dashed=not mine, size=20, bold=True)
    f.text(x + half, y - 18, name, 18)


def draw():
    f = Figure("Tensor parallelism of two matrices on two ranks",
               "Both ranks have the same input x. Rank 0 stores the left columns of W1 and the upper rows of W2, rank 1 the other "
               "halves. Each rank computes half of the outputs y, and from them a part of z. An all-reduce adds the two parts.", height=440)
    middle = [top + SIZE / 2 for top in TOPS]
    for rank, top in enumerate(TOPS):
        y = middle[rank]
        f.text(10, y, f"rank {rank}", 20, "start", bold=True)
        f.box(100, y - 26, 90, 52, "x", COMPUTE, size=20)
        f.arrow((190, y), (236, y))
        matrix(f, 240, top, "W1: half of the columns", f"W1{'ab'[rank]}", rank, True)
        f.arrow((370, y), (416, y))
        f.box(420, y - 26, 110, 52, f"y{'ab'[rank]}", COMPUTE, size=20)
        f.arrow((530, y), (576, y))
        matrix(f, 580, top, "W2: half of the rows", f"W2{'ab'[rank]}", rank, False)
        f.arrow((710, y), (756, y))
        f.box(760, y - 26, 90, 52, f"z{'ab'[rank]}", COMMUNICATE, size=20)
        f.arrow((850, y), (978, y), colour=COMMUNICATE)
        f.box(982, y - 26, 120, 52, "za + zb", COMMUNICATE, solid=True, size=20)
    f.arrow((914, middle[0]), (914, middle[1]), colour=COMMUNICATE, both=True)
    f.text(906, (middle[0] + middle[1]) / 2, "all-reduce", 20, "end", bold=True)
    return f
