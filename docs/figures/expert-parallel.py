"""A layer of four experts on four ranks. The tokens and the choices of the router are invented."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, UPDATE, Figure

RANKS = 4
CHOICES = ((0, 2, 1), (1, 0, 3), (3, 2, 1), (1, 2, 3))  # of each rank's tokens: the expert
COLOURS = (COMPUTE, COMMUNICATE, UPDATE, FOURTH)
TOP, ROW, BOX = 56, 92, 46


def draw():
    f = Figure("Experts on four ranks",
               "Each rank has three tokens and one expert. A router chooses an expert for each token. In an all-to-all, each rank "
               "sends its tokens to the ranks of their experts. The experts compute them, and a second all-to-all brings the results "
               "back. Expert 1 has four tokens, expert 0 two.", height=440)
    for x, name in ((230, "tokens, with the\nchosen expert"), (620, "experts"), (1000, "results")):
        f.text(x, 24, name, 18)
    arrived = [0] * RANKS
    places = []
    for rank, choices in enumerate(CHOICES):
        y = TOP + rank * ROW
        f.text(10, y + BOX / 2, f"rank {rank}", 20, "start", bold=True)
        for i, expert in enumerate(choices):
            f.box(160 + i * (BOX + 4), y, BOX, BOX, str(expert), COLOURS[expert], solid=True, size=20, bold=True)
            f.box(930 + i * (BOX + 4), y, BOX, BOX, str(expert), COLOURS[expert], size=20)
            arrived[expert] += 1
            places.append((rank, expert))
    for expert in range(RANKS):
        y = TOP + expert * ROW - 6
        f.box(520, y, 200, BOX + 12, f"expert {expert}: {arrived[expert]} tokens", COLOURS[expert], size=20, bold=True)
    for rank, expert in sorted(set(places)):
        y1, y2 = TOP + rank * ROW + BOX / 2, TOP + expert * ROW + BOX / 2
        f.arrow((318, y1), (514, y2), colour=COLOURS[expert], thick=2)
        f.arrow((726, y2), (922, y1), colour=COLOURS[expert], thick=2)
    for x in (416, 824):
        f.text(x, TOP + RANKS * ROW - 6, "all-to-all", 20, bold=True)
    return f
