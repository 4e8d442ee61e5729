"""Who starts the ranks: the program itself in step 2, and a launcher from step 3 on."""
from drawing import COMPUTE, FOURTH, HOST, Figure


def draw():
    f = Figure("Who starts the ranks", "Step 2: the program forks its ranks, on one node, and they share memory. From step 3 on: a launcher on "
               "each node starts the ranks. It does not train, so it survives a dead rank.", 330)
    f.group(10, 10, 370, 300, "step 2, one node", HOST, size=20, bold=True)
    f.box(100, 60, 190, 56, "train (parent)", COMPUTE, size=18)
    for i in range(2):
        f.box(40 + 170 * i, 190, 140, 56, f"rank {i}", COMPUTE, size=20, solid=True)
        f.arrow((150 + 90 * i, 122), (110 + 170 * i, 184))
    f.text(195, 156, "fork", 18)
    f.text(195, 280, "shared memory", 18)
    for node in range(2):
        left = 430 + 350 * node
        f.group(left, 10, 330, 300, f"step 3 and later, node {node}", HOST, size=20, bold=True)
        f.box(left + 80, 60, 170, 56, "launcher", FOURTH, size=18)
        for i in range(2):
            f.box(left + 20 + 155 * i, 190, 135, 56, f"rank {2 * node + i}", COMPUTE, size=20, solid=True)
            f.arrow((left + 130 + 70 * i, 122), (left + 88 + 155 * i, 184))
        f.text(left + 165, 280, "RANK, LOCAL_RANK", 18)
    return f
