"""A training step with four ranks and the default batch: train_step in 02_multigpu_fork/train.c with --overlap 0."""
from drawing import COMMUNICATE, COMPUTE, COPY, UPDATE, Figure

RANKS, BATCH = 4, 128
LEFT, PITCH, WIDTH = 18, 275, 259


def draw():
    rows = BATCH // RANKS
    f = Figure("A training step of four ranks",
               f"The batch of {BATCH} samples is cut into {RANKS} slices. Each rank runs forward and backward on its slice, with "
               f"the same parameters, and gets the part of the gradient that comes from its {rows} samples. An all-reduce adds "
               "the parts and gives each rank the sum. Each rank makes the same update.", height=500)
    f.text(LEFT, 20, f"the global batch: {BATCH} samples", 20, "start", bold=True)
    for rank in range(RANKS):
        x = LEFT + rank * PITCH
        center = x + WIDTH / 2
        f.box(x, 40, WIDTH, 46, f"samples {rank * rows} to {rank * rows + rows - 1}", COPY)
        f.arrow((center, 86), (center, 118))
        f.box(x, 118, WIDTH, 92, f"rank {rank}\nforward and backward", COMPUTE, size=22)
        f.arrow((center, 210), (center, 242))
        f.box(x, 242, WIDTH, 46, f"gradient of {rows} samples", COMPUTE)
        f.arrow((center, 288), (center, 320), colour=COMMUNICATE)
        f.arrow((center, 378), (center, 410), colour=COMMUNICATE)
        f.box(x, 410, WIDTH, 72, f"gradient of {BATCH} samples\nupdate", UPDATE)
    f.box(LEFT, 320, (RANKS - 1) * PITCH + WIDTH, 58, "all-reduce: adds the gradients of all ranks, and gives each rank the sum",
          COMMUNICATE, size=22)
    return f
