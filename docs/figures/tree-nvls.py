"""Two other ways to sum: a tree over nodes, and NVLS, in which the NVLink switch adds. The number of rounds is that of the tree in
cpu_device/src/gpu_collectives.c."""
from drawing import COMMUNICATE, COMPUTE, UPDATE, Figure


def draw():
    f = Figure("A tree and NVLS", "Left: a tree over eight nodes. Sums go up to node 0 in three rounds, and the result goes down in three more. "
               "Right: with NVLS, eight GPUs send their values to the NVLink switch, which adds them and sends the sums to all.", 450)
    f.text(270, 24, "tree over 8 nodes: 2 × 3 rounds", 24, bold=True)
    f.text(840, 24, "NVLS in a node: the switch adds", 24, bold=True)
    spots = {0: (270, 86), 4: (270, 176), 2: (150, 266), 6: (390, 266), 1: (90, 366), 3: (210, 366), 5: (330, 366), 7: (450, 366)}
    for child, parent in ((4, 0), (2, 4), (6, 4), (1, 2), (3, 2), (5, 6), (7, 6)):
        (x1, y1), (x2, y2) = spots[child], spots[parent]
        f.arrow((x1 - 7, y1 - 30), (x2 - 7, y2 + 30), colour=COMMUNICATE, thick=3)
        f.arrow((x2 + 7, y2 + 30), (x1 + 7, y1 - 30), colour=UPDATE, thick=3)
    for node, (x, y) in spots.items():
        f.box(x - 46, y - 28, 92, 56, f"node {node}", COMPUTE, solid=True, size=20, bold=True)
    f.box(600, 190, 480, 60, "NVLink switch: + + + + + + +", COMMUNICATE, solid=True, size=24, bold=True)
    for gpu in range(8):
        x = 606 + 121 * (gpu % 4)
        y, edge, end = (70, 126, 188) if gpu < 4 else (320, 318, 252)
        f.box(x, y, 104, 54, f"GPU {gpu}", COMPUTE, solid=True, size=20, bold=True)
        f.arrow((x + 40, edge), (x + 40, end), colour=COMMUNICATE, thick=3)
        f.arrow((x + 64, end), (x + 64, edge), colour=UPDATE, thick=3)
    f.legend(40, 433, (("values and partial sums", COMMUNICATE), ("the complete sum", UPDATE)))
    f.text(840, 412, "each GPU sends its values once,\nand receives the sums once", 20)
    return f
