"""step5.py BUILD [--rounds N]: the speed of steps 5 and 7 with two ranks on the CPU device, for each strategy, compared with
that of step 4; of the default model, and of one with 50 million parameters."""
import os
import struct
import sys
import tempfile

from bench import LR, MOMENTUM, compiler, data_here, machine, option, ratio, run, show, speed, spread

ROUNDS, BATCH, RANKS = int(option("--rounds", 5)), 128, 2
LARGE = "4096,4096,4096,3072"
build = sys.argv[1]
launch = f"{build}/03_multigpu_launcher/launch"
STRATEGIES = {"step 4": ("04_multinode/train",),
              "none": ("07_large_models/train", "--strategy", "none"),
              "full": ("05_fsdp/train",),
              "full, --prefetch 0": ("05_fsdp/train", "--prefetch", 0),
              "grad": ("07_large_models/train", "--strategy", "grad"),
              "full, bf16": ("07_large_models/train", "--precision", "bf16")}


def write_images(folder, name, count):
    """As many images of noise, in MNIST's format."""
    with open(f"{folder}/{name}-images-idx3-ubyte", "wb") as f:
        f.write(struct.pack(">4i", 0x803, count, 28, 28) + os.urandom(count * 28 * 28))
    with open(f"{folder}/{name}-labels-idx1-ubyte", "wb") as f:
        f.write(struct.pack(">2i", 0x801, count) + bytes(i % 10 for i in range(count)))


def measure(name, folder, epochs, *options):
    program, *more = STRATEGIES[name]
    output, _ = run(launch, "--nproc-per-node", RANKS, f"{build}/{program}", "--data", folder, "--epochs", epochs,
                    "--batch", BATCH, "--lr", LR, "--momentum", MOMENTUM, "--log-every", 1000000, *options, *more)
    return speed(output)


def compare(title, folder, epochs, *options):
    print(f"\n{title}")
    rounds = [[measure(name, folder, epochs, *options) for name in STRATEGIES] for _ in range(ROUNDS)]
    speeds = dict(zip(STRATEGIES, zip(*rounds)))
    for name, values in speeds.items():
        goal = "at least 0.7" if name == "full" else ""
        show(name, [spread(values), ratio(values, speeds["none"], max)], goal)


os.environ["OMP_NUM_THREADS"] = "1"
os.environ["NCCL_SOCKET_IFNAME"] = "lo"
os.environ["CPU_DEVICES"] = str(RANKS)
print(f"machine   {machine()}")
print(f"compiler  {compiler(launch)}")
print(f"training  batch {BATCH} of {RANKS} ranks together, 1 thread each, not pinned; SGD with momentum {MOMENTUM}")
print(f"\nimages/s: median (lowest-highest) of {ROUNDS} alternating runs, each the median of 3 epochs;")
print("compared with none, which is DDP: median of the rounds (of the best runs, which other work disturbed least)")
compare(f"MLP 784-512-512-10, 0.67 million parameters, {data_here()}", data_here(), 4)
with tempfile.TemporaryDirectory() as noise:
    write_images(noise, "train", 8 * BATCH)
    write_images(noise, "t10k", BATCH)
    compare(f"MLP 784-{LARGE.replace(',', '-')}-10, 49.4 million parameters, noise", noise, 4, "--hidden", LARGE)
