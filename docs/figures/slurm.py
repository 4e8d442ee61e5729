"""Slurm's nodes, tasks and GPUs, as in slurm/step4.sbatch and slurm/step4-launcher.sbatch."""
import re

from drawing import COMPUTE, HOST, PLAIN, WHITE, Figure, read

NODES, GPUS = 2, 2
WIDTH, NODE = 540, 250


def style(f, left, name, script, launcher):
    """launcher: the only task of a node is a launcher, which starts the ranks. Otherwise each task is a rank."""
    options = dict(re.findall(r"^#SBATCH (--[a-z-]+)=(\d+)$", read(f"slurm/{script}"), re.M))
    nodes, tasks, gpus = (f"{option}={options[option]}" for option in ("--nodes", "--ntasks-per-node", "--gpus-per-node"))
    f.area(left, 8, WIDTH, 504, WHITE, HOST.line, dashed=True, corner=8)
    f.text(left + 18, 36, name, 22, "start", bold=True)
    f.box(left + 18, 62, WIDTH - 36, 76)
    f.text(left + WIDTH / 2, 100, f"#SBATCH {nodes} {gpus}\n#SBATCH {tasks}", 18, code=True)
    for node in range(NODES):
        x = left + 14 + node * (NODE + 12)
        f.arrow((x + NODE / 2, 138), (x + NODE / 2, 172))
        f.group(x, 172, NODE, 326, f"node {node}", size=20, bold=True)
        if launcher:
            f.box(x + 12, 218, NODE - 24, 62, f"task {node}\nlauncher", PLAIN)
        for local in range(GPUS):
            rank, top = node * GPUS + local, 318 if launcher else 218
            at = x + 12 + local * 116
            if launcher:
                f.arrow((at + 55, 280), (at + 55, 318))
            f.box(at, top, 110, 382 - top, f"rank {rank}" if launcher else f"task {rank}\nrank {rank}")
            f.arrow((at + 55, 382), (at + 55, 420))
            f.box(at, 420, 110, 60, f"GPU {local}", COMPUTE)


def draw():
    f = Figure("Slurm: a job's nodes, tasks and GPUs, in two styles",
               "Both jobs have two nodes with two GPUs each. Left: Slurm starts one task per GPU, and each task is a "
               "rank. Right: Slurm starts one task per node, a launcher, and each launcher starts two ranks. In both, "
               "ranks 0 and 1 run on node 0, ranks 2 and 3 on node 1, and each has its own GPU.")
    style(f, 12, "One task per GPU", "step4.sbatch", False)
    style(f, 568, "One launcher per node", "step4-launcher.sbatch", True)
    return f
