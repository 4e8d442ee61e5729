"""Where a pair of divided layers needs sums (09_tensor/pair.c): the functions f and g of https://arxiv.org/abs/1909.08053."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure


def draw():
    f = Figure("A copy in forward is a sum in backward", "Forward: both ranks read the same inputs x, and a sum adds their shares of y. "
               "Backward: both ranks read the same gradients of y, and a sum adds their shares of the gradients of x.", 330)
    for top, name, first, last in ((10, "forward", "x", "y"), (175, "backward", "dx", "dy")):
        back = name == "backward"
        f.text(10, top + 66, name, 22, "start", bold=True)
        f.box(140, top + 36, 80, 60, first, COPY, code=True, size=22)
        f.box(1030, top + 36, 80, 60, last, COPY, code=True, size=22)
        for side, words in ((285, "sum" if back else "copy"), (880, "copy" if back else "sum")):
            f.disc(side + 40, top + 66, 38, COMMUNICATE if words == "sum" else HOST, words, solid=words == "sum", size=20, bold=True)
        for rank in range(2):
            y = top + 2 + 74 * rank
            f.box(480, y, 120, 56, f"W1, part {rank}", COMPUTE, size=18)
            f.box(660, y, 120, 56, f"W2, part {rank}", COMPUTE, size=18)
            f.text(440, y + 28, f"rank {rank}", 18, "end")
            ways = [[(606, y + 28), (654, y + 28)], [(786, y + 28), (884, top + 54 + 24 * rank)], [(365, top + 54 + 24 * rank), (474, y + 40 - 24 * rank)]]
            for way in ways:
                f.arrow(*(reversed(way) if back else way), thick=2)
        for a, b in ((226, 282), (964, 1024)):
            f.arrow(*(((b, top + 66), (a, top + 66)) if back else ((a, top + 66), (b, top + 66))), thick=2)
    return f
