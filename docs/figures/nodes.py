"""Launchers, nodes, ranks and GPUs: two nodes with four GPUs each, as 04_multinode/launch --nnodes 2 starts them."""
from drawing import COMMUNICATE, COMPUTE, Figure

NODES, GPUS = 2, 4
WIDTH, PITCH = 532, 126  # of a node; between two ranks


def draw():
    f = Figure("Launcher, nodes, ranks and GPUs",
               f"Each of {NODES} nodes has a launcher and {GPUS} GPUs. The launcher starts a rank for each GPU. Local "
               "ranks count from 0 on each node, and choose the GPU. Ranks count over all nodes, from 0 to "
               f"{NODES * GPUS - 1}. The world size is {NODES * GPUS}. The launchers agree over the network, and all ranks "
               "sum their gradients with NCCL.", 500)
    for node in range(NODES):
        left = 16 + node * (WIDTH + 24)
        f.group(left, 12, WIDTH, 382, f"node {node}", size=20, bold=True)
        middle = left + WIDTH / 2
        f.box(middle - 80, 30, 160, 50, "launcher", bold=True)
        for local in range(GPUS):
            x = left + 18 + local * PITCH
            center = x + 59
            f.arrow((middle, 80), (middle, 108), (center, 108), (center, 138))
            f.box(x, 138, 118, 96)
            f.text(center, 170, f"rank {node * GPUS + local}", 22, bold=True)
            f.text(center, 204, f"local rank {local}", 18)
            f.arrow((center, 234), (center, 284))
            f.box(x, 284, 118, 64, f"GPU {local}", COMPUTE)
            f.arrow((center, 348), (center, 424), colour=COMMUNICATE, both=True)
    between = 16 + WIDTH / 2 + 80
    f.arrow((between, 55), (between + WIDTH + 24 - 160, 55), both=True, dashed=True)
    f.box(16, 424, NODES * WIDTH + 24, 58, f"NCCL: all-reduce over all ranks, world size {NODES * GPUS}", COMMUNICATE, size=22)
    return f
