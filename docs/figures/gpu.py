"""A host with a GPU: the way of the data to the units that compute. The rates are those of the modelled H100 (cpu_device/src/gpu_rates.c);
cpu_device/README.md has their sources. The L2 cache is that of roofline.py. The numbers of SMs and the sizes of caches are those of
an H100 SXM: https://developer.nvidia.com/blog/nvidia-hopper-architecture-in-depth/."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, Figure
from formulas import gpus
from roofline import L2

GPU = gpus()["h100"]


def draw():
    pcie, memory, l2 = GPU["pcie"] / 1e9, GPU["memory"] / 1e9, L2 / 1e9
    f = Figure("A host and a GPU", "The host has a processor and memory. PCIe connects it with the GPU, whose memory (HBM) has 85 GB. Between the "
               f"HBM and the 132 SMs, which compute, lies the L2 cache of 50 MB. Rates: PCIe {pcie:g} GB/s, HBM {memory:,.0f} GB/s, "
               f"L2 {l2:,.0f} GB/s, arithmetic in fp32 {GPU['fp32'] / 1e12:.1f} TFLOP/s.", 376)
    f.group(8, 8, 226, 360, "host", HOST, size=24, bold=True)
    f.box(28, 60, 186, 120, "processor:\nputs calls into\nthe stream", FOURTH, size=20)
    f.box(28, 224, 186, 124, "memory:\nimages\nfrom the disk", COPY, size=20)
    f.group(400, 8, 712, 360, "GPU (H100)", HOST, size=24, bold=True)
    f.box(424, 60, 150, 290, "HBM\n85 GB\n\nall images,\nparameters,\ngradients,\nmomentum", COPY, size=20)
    f.box(704, 60, 130, 290, "L2 cache\n50 MB", UPDATE, size=20)
    for row, sm in enumerate((0, 1, 131)):
        f.box(964, (60, 122, 232)[row], 128, 54, f"SM {sm}", COMPUTE, solid=True, size=20, bold=True)
    f.text(1028, 202, "...", 30, bold=True)
    f.text(1028, 322, f"together {GPU['fp32'] / 1e12:.1f}\nTFLOP/s (fp32)", 18)
    for left, right, name, rate, thick in ((234, 420, "PCIe 5", pcie, 3), (578, 700, "", memory, 8), (838, 960, "", l2, 12)):
        y = 290 if name else 200
        f.arrow((left, y), (right, y), colour=COMMUNICATE if name else COMPUTE, thick=thick, both=not name)
        f.text((left + right) / 2 - 16 * bool(name), y - (44 if name else 62), f"{name}\n{rate:g} GB/s" if name else f"{rate:,.0f}\nGB/s", 20, bold=True)
    f.arrow((214, 110), (398, 110), colour=FOURTH, thick=3, dashed=True)
    f.text(301, 84, "calls", 20, bold=True)
    return f
