"""Two other ways to sum: the two trees of NCCL over nodes (ncclGetDtree in
https://github.com/NVIDIA/nccl/blob/master/src/graph/trees.cc), and NVLS, in which the NVLink switch adds."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, UPDATE, Figure

NODES, PITCH, TOP, LEVEL = 8, 44, 84, 90


def parent(node):
    """The node above in the first tree; the second tree is its mirror image."""
    bit = node & -node
    above = (node ^ bit) | bit << 1
    return above if above < NODES else node ^ bit


def level(node):
    return 0 if node == 0 else 1 + level(parent(node))


def tree(f, x, name, colour, mirrored):
    f.text(x + 3.5 * PITCH, 24, name, 22, bold=True)
    places = {node: (x + PITCH * node, TOP + LEVEL * level(NODES - 1 - node if mirrored else node)) for node in range(NODES)}
    for node in range(1, NODES):
        a, b = (NODES - 1 - node, NODES - 1 - parent(node)) if mirrored else (node, parent(node))
        f.line(places[a], places[b], colour=colour, thick=3)
    for node, (left, top) in places.items():
        f.box(left - 20, top - 20, 40, 40, str(node), colour, solid=bool((node % 2 == 0) ^ mirrored), size=20, bold=True)


def draw():
    f = Figure("Two trees, and NVLS", "Left: two trees over eight nodes, each for half of the data. Partial sums go up in three rounds, and the "
               "result comes down in three more. A node that adds in one tree is a leaf of the other one. "
               "Right: with NVLS, eight GPUs send their values to the NVLink switch, which adds them and sends the sums to all.", 450)
    tree(f, 44, "one half: 2 × 3 rounds", COMPUTE, False)
    tree(f, 424, "the other half: mirrored", FOURTH, True)
    f.text(388, 405, "sums go up, the result comes down; solid: a node that adds", 20)
    f.text(944, 24, "NVLS: the switch adds", 22, bold=True)
    f.box(790, 190, 310, 60, "NVLink switch: +", COMMUNICATE, solid=True, size=22, bold=True)
    for gpu in range(8):
        x = 790 + 79 * (gpu % 4)
        y, edge, end = (70, 126, 188) if gpu < 4 else (320, 318, 252)
        f.box(x, y, 72, 54, f"GPU {gpu}", COMPUTE, solid=True, size=18, bold=True)
        f.arrow((x + 24, edge), (x + 24, end), colour=COMMUNICATE, thick=3)
        f.arrow((x + 48, end), (x + 48, edge), colour=UPDATE, thick=3)
    f.text(944, 405, "each GPU sends once, receives once", 18)
    f.legend(760, 436, (("values", COMMUNICATE), ("the complete sum", UPDATE)))
    return f
