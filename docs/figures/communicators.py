"""The three communicators of rank 0 among eight ranks: 2 replicas x 2 stages x 2 parts (09_tensor)."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, Figure

PARTS, STAGES, REPLICAS = 2, 2, 2
WIDTH, HEIGHT = 300, 124
COLUMNS, LINES = (130, 600), (34, 214)
BOX = 90


def place(rank):
    """The top left corner of a rank's box."""
    part, stage, replica = rank % PARTS, rank // PARTS // REPLICAS, rank // PARTS % REPLICAS
    return COLUMNS[replica] + 30 + part * (BOX + 60), LINES[stage] + 46


def draw():
    f = Figure("The communicators of a rank",
               "Eight ranks. Rank 0 sums shares with rank 1, which has the other part of its matrices. It sends outputs to rank 4, the "
               "next stage, and gets gradients back. It sums gradients with rank 2, which has the same layers and part in the other "
               "replica.", 400)
    for replica, left in enumerate(COLUMNS):
        f.text(left + WIDTH / 2, 14, f"replica {replica}", 20, bold=True)
        for top in LINES:
            f.area(left, top, WIDTH, HEIGHT, HOST.pale, HOST.line, corner=8)
    for stage, top in enumerate(LINES):
        f.text(8, top + HEIGHT / 2, f"stage {stage}", 20, "start", bold=True)
    for rank in range(PARTS * STAGES * REPLICAS):
        x, y = place(rank)
        f.box(x, y, BOX, 58, f"rank {rank}", COMPUTE, solid=rank in (0, 1, 2, 4), size=18, bold=rank == 0)
    (x, y), (part, _), (replica, _), (_, stage) = place(0), place(1), place(2), place(4)
    f.arrow((x + BOX, y + 29), (part, y + 29), colour=COMMUNICATE, thick=4, both=True)
    f.arrow((x + BOX / 2, y + 58), (x + BOX / 2, stage), colour=COPY, thick=4, both=True)
    f.arrow((x + BOX / 2, y), (x + BOX / 2, y - 28), (replica + BOX / 2, y - 28), (replica + BOX / 2, y), colour=FOURTH, thick=4, both=True)
    for x, colour, text in ((130, COMMUNICATE, "sums of shares"), (430, COPY, "outputs and gradients"), (770, FOURTH, "sums of gradients")):
        f.line((x, 366), (x + 40, 366), colour=colour, thick=5)
        f.text(x + 52, 366, text, 18, "start")
    return f
