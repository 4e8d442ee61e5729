"""The way of a byte from GPU 0 of a node to GPU 1 of another one, in a network with rails: NIC i of each node is connected to leaf
switch i, and spine switches connect the leaves. Four of the eight rails are drawn; the rates are those of docs/figures/links.py."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, Figure
from links import rate

RAILS, PITCH, NODE, WAY = 4, 128, 540, 1  # WAY: the rail of the byte


def draw():
    link, pcie, network = (f"{rate(key):g} GB/s" for key in ("link", "pcie", "network"))
    f = Figure("The way of a byte to a GPU of another node", "NIC 0 of each node is connected to leaf switch 0, NIC 1 to leaf switch 1, "
               "and so on. A byte from GPU 0 to GPU 1 of the other node goes over NVLink to GPU 1 of its own node, over PCIe to NIC 1, "
               "through leaf switch 1 to NIC 1 of the other node, and over PCIe to GPU 1. From NIC 0, it would pass a spine switch.", 530)
    leaf = [225 + 224 * rail for rail in range(RAILS)]
    for rail in range(RAILS):
        for spine in range(2):
            f.line((leaf[rail], 138), (345 + 430 * spine, 58), colour=HOST, thick=2.5)
        f.box(leaf[rail] - 75, 138, 150, 50, f"leaf {rail}", COMMUNICATE, solid=rail == WAY, size=22, bold=rail == WAY)
    for spine in range(2):
        f.box(255 + 430 * spine, 8, 180, 50, f"spine {spine}", FOURTH, size=22)
    for node in range(2):
        left = 8 + node * (NODE + 24)
        f.group(left, 274, NODE, 250, "", HOST)
        f.text(left + NODE / 2, 507, f"node {node}", 20, bold=True)
        f.box(left + 18, 446, NODE - 36, 44, "", COMMUNICATE)
        f.text(left + 400, 468, "NVLink switches", 20)
        for rail in range(RAILS):
            middle = left + 78 + rail * PITCH
            f.box(middle - 60, 290, 120, 46, f"NIC {rail}", COMMUNICATE, solid=rail == WAY)
            f.box(middle - 60, 366, 120, 46, f"GPU {rail}", COMPUTE, solid=True, bold=True)
            f.line((middle, 412), (middle, 446), colour=HOST, thick=2.5)
            points = ((middle, 366), (middle, 336)), ((middle, 290), (leaf[rail], 188))
            for begin, end in points if rail == WAY else ():
                f.arrow(*((end, begin) if node else (begin, end)), colour=COMMUNICATE, thick=5)
            for begin, end in points if rail != WAY else ():
                f.line(begin, end, colour=HOST, thick=2.5)
    first, second = 86, 86 + PITCH
    f.arrow((first, 412), (first, 468), (second, 468), (second, 414), colour=COMMUNICATE, thick=5)
    for x, y, number in ((first + 22, 428, 1), (second + 22, 351, 2), (leaf[WAY] - 49, 251, 3), (800, 351, 4)):
        f.text(x, y, str(number), 20, bold=True)
    for i, words in enumerate((f"1  NVLink: {link}", f"2, 4  PCIe: {pcie}", f"3  rail {WAY}: {network}")):
        f.text(10, 22 + 27 * i, words, 18, "start", bold=True)
    return f
