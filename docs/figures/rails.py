"""Two nodes in a network with rails: NIC i of each node is connected to leaf switch i, and spine switches connect the leaves. Four
of the eight rails are drawn."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, Figure

RAILS, PITCH, NODE = 4, 128, 540


def draw():
    f = Figure("Rails", "NIC 0 of each node is connected to leaf switch 0, NIC 1 to leaf switch 1, and so on. A message between "
               "GPUs with the same number passes one leaf switch. One between different numbers goes through a spine switch, "
               "or first over NVLink inside of the node.", 530)
    for node in range(2):
        left = 8 + node * (NODE + 24)
        f.group(left, 348, NODE, 174, "", HOST)
        f.text(left + NODE / 2, 504, f"node {node}", 20, bold=True)
        for rail in range(RAILS):
            x = left + 18 + rail * PITCH
            f.line((x + 60, 348 + 70), (x + 60, 348 + 84), colour=COMPUTE, thick=4)
            f.box(x, 348 + 18, 120, 50, f"NIC {rail}", COMMUNICATE)
            f.box(x, 348 + 84, 120, 50, f"GPU {rail}", COMPUTE, solid=True, bold=True)
    leaf = [150 + 224 * rail for rail in range(RAILS)]
    for rail in range(RAILS):
        for node in range(2):
            x = 8 + node * (NODE + 24) + 18 + rail * PITCH + 60
            f.line((x, 366), (leaf[rail] + 75, 232), colour=COMMUNICATE if rail == 1 else HOST, thick=6 if rail == 1 else 2.5)
        for spine in range(2):
            f.line((leaf[rail] + 75, 178), (345 + 430 * spine, 72), colour=HOST, thick=2.5)
    for rail in range(RAILS):
        f.box(leaf[rail], 178, 150, 54, f"leaf {rail}", COMMUNICATE, solid=rail == 1, size=22, bold=rail == 1)
    for spine in range(2):
        f.box(345 + 430 * spine - 90, 18, 180, 54, f"spine {spine}", FOURTH, size=22)
    f.text(16, 205, "rail 1\nis orange", 20, "start", bold=True)
    return f
