"""step1.py BUILD [--accuracy]: what step 1 reaches on the CPU device, as a table: speed and memory beside
PyTorch and beside its bare matrix products, with --accuracy also the accuracy over five seeds."""
import ctypes
import os
import platform
import re
import statistics
import subprocess
import sys

ROUNDS, EPOCHS, LR, MOMENTUM = 5, 4, "0.05", "0.9"
BATCHES = 64, 256
build = sys.argv[1]
trainer, sgemm = f"{build}/01_single_gpu/train", f"{build}/tests/bench/sgemm"
torch_mnist = ["/usr/bin/python3", os.path.join(os.path.dirname(__file__), "torch_mnist.py")]


def run(*command):
    """Output of the program, and its peak resident memory in MB."""
    child = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True)
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"error: {' '.join(child.args)}: exit code {child.returncode}")
    return output, usage.ru_maxrss * 1024 / 1e6


def measure(*command):
    """Images per second of the median epoch, and memory. The first epoch, which warms up, does not count."""
    output, memory = run(*command)
    speeds = [float(speed) for speed in re.findall(r"([\d.]+) images/s", output)]
    return statistics.median(speeds[1:]), memory


def openblas(program):
    """Folder and description of the OpenBLAS that the program loads."""
    linked, _ = run("ldd", program)
    found = re.search(r"=> (\S*openblas\S*)", linked)
    if not found:
        sys.exit(f"error: {program} is not linked with OpenBLAS, which this comparison needs")
    path = os.path.realpath(found[1])
    config = ctypes.CDLL(path).openblas_get_config
    config.restype = ctypes.c_char_p
    return os.path.dirname(found[1]), f"{path}: {config().decode()}"


def has_images(folder):
    return os.path.exists(f"{folder}/train-images-idx3-ubyte.gz")


def processor():
    with open("/proc/cpuinfo") as f:
        names = re.findall(r"model name\s*: (.*)", f.read())
    return names[0] if names else platform.machine()


def show(label, cells, goal=""):
    print(f"{label:28}" + "".join(f"{cell:>24}" for cell in cells) + f"   {goal}".rstrip())


def spread(values):
    return f"{statistics.median(values):.0f} ({min(values):.0f}-{max(values):.0f})"


def speed_table(data):
    rounds = {batch: [] for batch in BATCHES}
    for _ in range(ROUNDS):
        for batch in BATCHES:
            rounds[batch].append((
                measure(trainer, "--data", data, "--batch", batch, "--epochs", EPOCHS, "--lr", LR,
                        "--momentum", MOMENTUM, "--log-every", 1000000),
                measure(sgemm, batch, EPOCHS),
                measure(*torch_mnist, data, batch, EPOCHS, LR, MOMENTUM)))
    # A column of each figure per batch. Ratios are taken within a round, whose runs follow each other,
    # so that a machine that is now faster and now slower does not spoil them.
    ours, bare, torch = ([[r[i][0] for r in rounds[b]] for b in BATCHES] for i in range(3))
    our_memory, torch_memory = ([[r[i][1] for r in rounds[b]] for b in BATCHES] for i in (0, 2))

    def ratio(above, below, best):
        return [f"{statistics.median(a / b for a, b in zip(*pair)):.2f} ({best(pair[0]) / best(pair[1]):.2f})"
                for pair in zip(above, below)]

    print(f"\nmedian (lowest-highest) of {ROUNDS} alternating runs, each the median of {EPOCHS - 1} epochs;")
    print("ratios: median of the rounds (of the best runs, which other work disturbed least)")
    show("", [f"batch {batch}" for batch in BATCHES], "goal")
    show("trainer, images/s", map(spread, ours))
    show("PyTorch, images/s", map(spread, torch))
    show("bare sgemm, images/s", map(spread, bare))
    show("trainer / PyTorch, speed", ratio(ours, torch, max), "at least 1.6")
    show("trainer / sgemm, time", ratio(bare, ours, max), "at most 1.25")
    show("sgemm / PyTorch, speed", ratio(bare, torch, max), "the most that the trainer could reach")
    show("trainer, peak memory, MB", map(spread, our_memory))
    show("PyTorch, peak memory, MB", map(spread, torch_memory))
    show("trainer / PyTorch, memory", ratio(our_memory, torch_memory, min), "below 0.5")


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
folder, blas = openblas(trainer)
# Debian's PyTorch takes whatever libblas.so.3 the system points at; here it is to be the trainer's.
os.environ["LD_LIBRARY_PATH"] = folder
data = next((f for f in ("data/mnist", "data/fashion-mnist") if has_images(f)), "synthetic")
versions, _ = run(*torch_mnist, data, 64, 0, LR, MOMENTUM)
torch_version, torch_blas = re.findall(r"^(?:PyTorch|BLAS) (.*)", versions, re.M)
coretype = os.environ.get("OPENBLAS_CORETYPE", "unset")
with open(trainer, "rb") as f:
    compiler = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", f.read())
print(f"machine   {processor()}, {os.cpu_count()} cores, Linux {platform.release()}, "
      f"load {os.getloadavg()[0]:.1f} beforehand")
print(f"compiler  {compiler[0].decode() if compiler else 'unknown'}; PyTorch {torch_version}")
print(f"threads   {os.environ['OMP_NUM_THREADS']} on all sides; OPENBLAS_CORETYPE {coretype}")
print(f"BLAS      {blas}")
print("          the same in PyTorch" if torch_blas == blas else f"          but in PyTorch {torch_blas}")
print(f"training  {data}, MLP 784-512-512-10, SGD with momentum {MOMENTUM}, lr {LR}", flush=True)
speed_table(data)
if "--accuracy" in sys.argv:
    accuracy_table()
