"""A node with 8 GPUs: how GPUs, NVLink switches, PCIe switches, network cards (NICs) and processors are connected. The layout is
that of an HGX H100 with a NIC for each GPU; the rates are those that docs/figures/links.py reads."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, Figure
from links import rate

GPUS, PITCH, LEFT, WIDTH = 8, 116, 172, 100


def draw():
    link, pcie, network = (f"{rate(key):g} GB/s" for key in ("link", "pcie", "network"))
    f = Figure("A node with 8 GPUs", "Eight GPUs are connected with each other through NVLink switches. Each pair of GPUs and two "
               "network cards share a PCIe switch, two of these switches belong to each of the two processors, and each card "
               f"has a cable to a switch outside of the node. NVLink {link}, PCIe {pcie}, a network card {network}.", 540)
    f.group(8, 8, 1104, 456, "", HOST)
    right = LEFT + PITCH * (GPUS - 1) + WIDTH
    f.box(LEFT, 24, right - LEFT, 50, "NVLink switches (NVSwitch)", COMMUNICATE, size=22, bold=True)
    for gpu in range(GPUS):
        x = LEFT + PITCH * gpu
        middle = x + WIDTH / 2
        f.line((middle, 74), (middle, 116), colour=COMMUNICATE, thick=7)
        f.box(x, 116, WIDTH, 54, f"GPU {gpu}", COMPUTE, solid=True, bold=True)
        f.line((middle, 170), (middle, 220), colour=COPY, thick=4)
        card = middle + (-22 if gpu % 4 < 2 else 22)  # beside the processor
        f.line((card, 266), (card, 392), colour=COPY, thick=4)
        f.box(x + 14, 392, WIDTH - 28, 50, f"NIC {gpu}", COMMUNICATE, size=18, bold=True)
        f.arrow((middle, 442), (middle, 496), colour=COMMUNICATE, thick=4, both=True)
    f.line((LEFT + 224, 334), (LEFT + 4 * PITCH + 224, 334), colour=FOURTH, thick=4)
    for pair in range(GPUS // 2):
        x = LEFT + 2 * PITCH * pair
        inner = x + (PITCH + WIDTH - 26 if pair % 2 == 0 else 26)
        f.line((inner, 266), (inner, 300), colour=COPY, thick=4)
        f.box(x, 220, PITCH + WIDTH, 46, "PCIe switch", COPY)
    for cpu in range(2):
        f.box(LEFT + 4 * PITCH * cpu + 156, 300, 136, 62, f"CPU {cpu}\nand memory", FOURTH, size=18)
    for y, text in ((95, f"NVLink\n{link}"), (195, f"PCIe 5\n{pcie}"), (417, "NICs"), (510, f"cables\n{network}")):
        f.text(22, y, text, 20, "start", bold=True)
    return f
