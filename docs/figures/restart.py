"""What the launchers of two nodes do when a rank dies (04_multinode/launch.c). The time axis has no
scale."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Figure

RANKS, TOP, PITCH = 4, 66, 72


def draw():
    f = Figure("A rank dies, and all ranks start again", "Two launchers have started two ranks each. The ranks save a snapshot. Then "
               "rank 3 dies. Its launcher learns of it, because it is the parent, and tells the other one. Both send SIGTERM to "
               "their ranks, and SIGKILL if they do not end. Then they start all ranks again, which read the snapshot.", 460)
    y = [TOP + PITCH * i + (34 if i > 1 else 0) for i in range(RANKS)]
    for node in range(2):
        f.box(12, y[2 * node] - 26, 140, PITCH + 52, f"launcher\nof node {node}", HOST, bold=True)
    for rank in range(RANKS):
        f.text(172, y[rank], f"rank {rank}", 20, "start", bold=True)
        end = 560 if rank == 3 else 690
        f.box(256, y[rank] - 18, end - 256, 36, "", COMPUTE)
        f.box(800, y[rank] - 18, 300, 36, "", COMPUTE)
        f.box(380, y[rank] - 18, 60, 36, "", UPDATE, solid=True)
        f.box(800, y[rank] - 18, 60, 36, "", COPY, solid=True)
    for x, words in ((410, "save a\nsnapshot"), (830, "read the\nsnapshot"), (700, "SIGTERM"), (560, "dies")):
        f.text(x, 398, words, 20)
    f.text(300, 22, "attempt 0", 22, "start", bold=True)
    f.text(900, 22, "attempt 1", 22, "start", bold=True)
    f.cross(560, y[3], 12)
    for rank in range(3):
        f.line((690, y[rank] - 24), (690, y[rank] + 24), colour=COMMUNICATE, thick=5)
    f.text(745, (y[1] + y[2]) / 2, "start again", 18)
    return f
