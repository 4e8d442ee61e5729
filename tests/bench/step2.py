"""step2.py BUILD [--rounds N]: the speed of step 2 with two ranks on the CPU device, as a table, compared with
PyTorch's DistributedDataParallel, with step 1 with two threads, and with what does not communicate."""
import os
import statistics
import sys

from bench import (LR, MOMENTUM, TORCH_DDP, TORCH_MNIST, data_here, finish, option, print_training, ratio, run,
                   show, speed, spread, start, training)

ROUNDS, EPOCHS, BATCH, RANKS = int(option("--rounds", 5)), 4, 128, 2
build = sys.argv[1]
step1, step2 = f"{build}/01_single_gpu/train", f"{build}/02_multigpu_fork/train"


def measure_step2(overlap):
    return speed(run(step2, *training(data, BATCH, EPOCHS), "--nproc", RANKS, "--overlap", overlap)[0])


def measure_apart():
    """As many processes of step 1 at once as there are ranks, each with its part of the batch: the work of
    step 2 without its communication."""
    children = [start(step1, *training(data, BATCH // RANKS, EPOCHS)) for _ in range(RANKS)]
    return sum(speed(finish(child)[0]) for child in children)


def exposed(speeds, apart):
    """Microseconds of communication per training step, in each round, that computation does not hide."""
    return [1e6 * BATCH * (1 / ours - 1 / other) for ours, other in zip(speeds, apart)]


os.environ["OMP_NUM_THREADS"] = "1"
os.environ["NCCL_SOCKET_IFNAME"] = "lo"
os.environ["CPU_DEVICES"] = str(RANKS)
data = data_here()
print_training(step1, TORCH_MNIST, f"1 in each of {RANKS} processes, {RANKS} in step 1 alone, not pinned", data)
print(f"batch     {BATCH} of all ranks together")
rounds = [(measure_step2(1),
           measure_step2(0),
           speed(run(*TORCH_DDP, data, BATCH, EPOCHS, LR, MOMENTUM, RANKS)[0]),
           speed(run(step1, *training(data, BATCH, EPOCHS), OMP_NUM_THREADS=str(RANKS))[0]),
           measure_apart()) for _ in range(ROUNDS)]
ours, waits, ddp, alone, apart = zip(*rounds)
print(f"\nmedian (lowest-highest) of {ROUNDS} alternating runs, each the median of {EPOCHS - 1} epochs;")
print("ratios: median of the rounds (of the best runs, which other work disturbed least)")
WIDTHS = 42, 24
show("step 2, images/s", [spread(ours)], "", WIDTHS)
show("step 2 with --overlap 0, images/s", [spread(waits)], "", WIDTHS)
show("PyTorch DDP with Gloo, images/s", [spread(ddp)], "", WIDTHS)
show(f"step 1, {RANKS} threads, images/s", [spread(alone)], "", WIDTHS)
show(f"{RANKS} x step 1 at once, batch {BATCH // RANKS}, images/s", [spread(apart)], "", WIDTHS)
show("step 2 / PyTorch DDP, speed", [ratio(ours, ddp, max)], "at least 3.5", WIDTHS)
show(f"step 2 / step 1 with {RANKS} threads, speed", [ratio(ours, alone, max)], "at least 0.85", WIDTHS)
show("step 2 / --overlap 0, speed", [ratio(ours, waits, max)], "", WIDTHS)
show("exposed communication, us per step", [spread(exposed(ours, apart))], "", WIDTHS)
show("the same with --overlap 0", [spread(exposed(waits, apart))], "", WIDTHS)
