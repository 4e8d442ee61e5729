"""How the ranks of step 2 start and meet: start_ranks in 02_multigpu_fork/ranks.c, then join in train.c. Time runs
downwards."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, PLAIN, Figure

RANKS = 4
LEFT, PITCH, WIDTH = 236, 220, 208


def draw():
    f = Figure("Step 2: fork, and the id that all ranks share",
               f"The parent forks {RANKS} ranks and waits for them; it calls no CUDA function. Rank 0 makes the id with "
               "ncclGetUniqueId and writes it to memory that all processes share. The other ranks read it there. With "
               "this id, all ranks call ncclCommInitRank, which waits until all have come. Then each rank trains on its "
               "own GPU.")
    f.box(12, 14, 192, 58, "parent", PLAIN, size=22, bold=True)
    f.box(12, 132, 192, 374, "waits for\nthe ranks,\n\ncalls no CUDA\nfunction", HOST)
    f.arrow((108, 72), (108, 132), colour=HOST)
    f.text(228, 24, "fork", 18, "start", code=True)
    f.box(LEFT, 256, RANKS * PITCH - 12, 50, "shared memory: the id, 128 bytes", COPY)
    f.box(LEFT, 362, RANKS * PITCH - 12, 50, "ncclCommInitRank: all ranks join one communicator", COMMUNICATE)
    for rank in range(RANKS):
        x = LEFT + rank * PITCH
        center = x + WIDTH / 2
        f.arrow((204, 43), (center, 43), (center, 84))
        f.box(x, 84, WIDTH, 48, f"rank {rank}", PLAIN, size=22, bold=True)
        f.arrow((center, 412), (center, 456))
        f.box(x, 456, WIDTH, 50, f"train on GPU {rank}", COMPUTE)
        if rank == 0:
            f.arrow((center, 132), (center, 168))
            f.box(x, 168, WIDTH, 48, "ncclGetUniqueId", COMMUNICATE, size=18, code=True)
            f.arrow((center, 216), (center, 256), colour=COPY)
            f.text(center + 14, 236, "writes", 18, "start")
            f.arrow((center, 306), (center, 362))
        else:
            f.arrow((center, 132), (center, 256), colour=HOST, dashed=True)
            f.text(center + 14, 192, "waits", 18, "start")
            f.arrow((center, 306), (center, 362), colour=COPY)
            f.text(center + 14, 332, "reads", 18, "start")
    return f
