"""A run that is longer than a job may be: slurm/chain.sbatch."""
from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure


def draw():
    f = Figure("A chain of jobs", "A job runs until Slurm sends SIGUSR1, 90 seconds before its time is up. The ranks save a snapshot and end, and "
               "the script puts the job into the queue again. The next run reads the snapshot.", 210)
    for i in range(3):
        left = 10 + 390 * i
        f.box(left, 70, 200 if i < 2 else 250, 60, f"run {i + 1}: train", COMPUTE, solid=True, size=20)
        if i == 2:
            f.text(left + 125, 160, "... until it is done", 18)
            continue
        f.box(left + 206, 70, 60, 60, "save", UPDATE, solid=True, size=18)
        f.box(left + 272, 70, 112, 60, "in the queue", HOST, size=18)
        f.arrow((left + 203, 30), (left + 203, 64), colour=COMMUNICATE, thick=3)
        f.text(left + 203, 16, "SIGUSR1", 18, bold=True)
        f.arrow((left + 236, 136), (left + 236, 184), (left + 420, 184), (left + 420, 136), colour=UPDATE)
        f.text(left + 328, 166, "the snapshot", 18)
    return f
