"""step1.py BUILD [--rounds N] [--accuracy]: what step 1 reaches on the CPU device, as a table: speed and
memory compared with PyTorch and with its bare matrix products, with --accuracy also the accuracy over five seeds."""
import os
import re
import statistics
import sys

from bench import (LR, MOMENTUM, TORCH_MNIST, data_here, has_images, option, print_training, ratio, run,
                   show, speed, spread, training)

ROUNDS, EPOCHS = int(option("--rounds", 5)), 4
BATCHES = 64, 128, 256
build = sys.argv[1]
trainer, sgemm = f"{build}/01_single_gpu/train", f"{build}/tests/bench/sgemm"


def measure(*command, **variables):
    """Speed and memory."""
    output, memory = run(*command, **variables)
    return speed(output), memory


def speed_table(data):
    rounds = {batch: [] for batch in BATCHES}
    for _ in range(ROUNDS):
        for batch in BATCHES:
            rounds[batch].append((
                measure(trainer, *training(data, batch, EPOCHS)),
                # Its library's own threads wait like ours: not for milliseconds on a core that others use.
                measure(sgemm, batch, EPOCHS, GOMP_SPINCOUNT="10000"),
                measure(*TORCH_MNIST, data, batch, EPOCHS, LR, MOMENTUM)))
    # A column of each figure per batch.
    ours, bare, torch = ([[r[i][0] for r in rounds[b]] for b in BATCHES] for i in range(3))
    our_memory, torch_memory = ([[r[i][1] for r in rounds[b]] for b in BATCHES] for i in (0, 2))

    def ratios(above, below, best):
        return [ratio(*pair, best) for pair in zip(above, below)]

    print(f"\nmedian (lowest-highest) of {ROUNDS} alternating runs, each the median of {EPOCHS - 1} epochs;")
    print("ratios: median of the rounds (of the best runs, which other work disturbed least)")
    show("", [f"batch {batch}" for batch in BATCHES], "goal")
    show("trainer, images/s", map(spread, ours))
    show("PyTorch, images/s", map(spread, torch))
    show("bare sgemm, images/s", map(spread, bare))
    show("trainer / PyTorch, speed", ratios(ours, torch, max), "at least 1.5")
    show("trainer / sgemm, time", ratios(bare, ours, max), "at most 1.25")
    show("sgemm / PyTorch, speed", ratios(bare, torch, max), "the most that the trainer could reach")
    show("trainer, peak memory, MB", map(spread, our_memory))
    show("PyTorch, peak memory, MB", map(spread, torch_memory))
    show("trainer / PyTorch, memory", ratios(our_memory, torch_memory, min), "below 0.5")


def accuracy_table():
    print("\nTest accuracy in % at the default options (10 epochs), seeds 1 to 5")
    for name, goal in ("mnist", 98), ("fashion-mnist", 88):
        folders = [f for f in (f"data/{name}", f"/usr/share/datasets/{name}") if has_images(f)]
        if not folders:
            print(f"{name:14} not here")
            continue
        outputs = [run(trainer, "--data", folders[0], "--seed", seed)[0] for seed in range(1, 6)]
        last = [float(re.findall(r"accuracy ([\d.]+)%", output)[-1]) for output in outputs]
        each = " ".join(f"{accuracy:.2f}" for accuracy in last)
        print(f"{name:14} mean {statistics.mean(last):.2f} ({each}), goal at least {goal}")


os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))
data = data_here()
print_training(trainer, TORCH_MNIST, f"{os.environ['OMP_NUM_THREADS']} on all sides", data)
speed_table(data)
if "--accuracy" in sys.argv:
    accuracy_table()
