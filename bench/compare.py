"""compare.py BUILD [--models mlp,cnn,...] [--batches 64,128,...] [--ranks 1,2] [--ways memory,ddp,...] [--rounds N]: the
steps of the course beside PyTorch: first that both compute the same losses, then their speed, as one table and
build/bench/speed.csv."""
import csv
import glob
import os
import re
import statistics
import subprocess
import sys
import tempfile

sys.path.insert(0, "tools")
import files  # noqa: E402

from bench import compiler, fastest_kernels, finish, judged, machine, option, processor_flags, run, spread, start  # noqa: E402

build, OUT = sys.argv[1], "build/bench"
ROUNDS = int(option("--rounds", 5))
GPU = "gpu" in build
# The samples of a run, the options of the trainers, and how many times as fast as PyTorch 1 rank shall be with batch 64.
MODELS = {"mlp": (600000 if GPU else 200000, (), 2.0),
          "cnn": (100000 if GPU else 4000, ("--model", "cnn"), 1.3),
          "resnet8": (100000 if GPU else 4000, ("--model", "resnet", "--depth", 8), 1.0),
          "gpt": (100000 if GPU else 4000, ("--model", "gpt", "--size", "tiny", "--context", 64), 1.5)}
BATCHES = {"mlp": (64, 256, 1024), "cnn": (64,), "resnet8": (64,), "gpt": (64,)}
LAUNCH = "launch"
# The programs of each number of ranks. The first one is the one that the others are compared with.
PROGRAMS = {
    1: {"step 1": ("01_single_gpu/train",),
        "PyTorch, data in memory": "memory", "PyTorch, DataLoader": "loader", "PyTorch, compiled": "compiled"},
    2: {"step 2": ("02_multigpu_fork/train", "--nproc", 2),
        "step 2, --overlap 0": ("02_multigpu_fork/train", "--nproc", 2, "--overlap", 0),
        "2 x step 1, no communication": None,
        "step 4": (LAUNCH, "04_multinode/train"),
        "step 5, fully sharded": (LAUNCH, "05_fsdp/train"),
        "step 7, gradients sharded": (LAUNCH, "07_large_models/train", "--strategy", "grad"),
        "PyTorch DDP": "ddp", "PyTorch FSDP": "fsdp"}}
GOALS = {"PyTorch DDP": "at least 3.5", "step 2, --overlap 0": "at least 1",
         "2 x step 1, no communication": "at least 0.95", "step 5, fully sharded": "at most 1.4"}
LOSS_STEPS, CLOSE = 20, 1e-4


def chosen(name, default, kind=str):
    return [kind(each) for each in option(name, ",".join(map(str, default))).split(",")]


def data_of(model):
    if model == "gpt":
        return "build/story.txt"
    found = [f for f in ("data/mnist", "data/fashion-mnist", "data/digits") if glob.glob(f"{f}/train-images-idx3-ubyte*")]
    return found[0] if found else sys.exit("error: there are no images to train on: make data")


def trainer(words, model, *options):
    """The command of one of our programs."""
    start_ranks = ()
    if words[0] == LAUNCH:
        start_ranks = f"{build}/03_multigpu_launcher/launch", "--nproc-per-node", 2
        words = words[1:]
    data = "text:" + data_of(model) if model == "gpt" else data_of(model)
    return *start_ranks, f"{build}/{words[0]}", *words[1:], "--data", data, *MODELS[model][1], *options


def torch(way, model, ranks, *options):
    script = os.path.join(os.path.dirname(__file__), "pytorch.py")
    return (sys.executable, "-B", script, "--way", way, "--model", model, "--data", data_of(model),
            "--ranks", ranks, *options)


def check_losses(model, ranks, programs):
    """Trains from the same parameters with the same order of the samples. Ends the benchmark if a loss differs. Returns
    why this version of PyTorch cannot train in some of the ways, by name of the program."""
    batch, rate = ("--batch", 64), ("--lr", 2e-4)
    ours = *batch, "--momentum", 0.9, "--log-every", 1, *(("--dropout", 0) if model == "cnn" else ())
    with tempfile.TemporaryDirectory() as work:
        # With so small a rate, a step changes no parameter in 4 bytes.
        run(*trainer(PROGRAMS[1]["step 1"], model, *ours, "--lr", 1e-12, "--max-steps", 1, "--snapshot", f"{work}/start"))
        wanted, why = None, {}
        for name, program in programs.items():
            if program is None:
                continue
            if isinstance(program, str):
                command = torch(program, model, ranks, *batch, *rate, "--steps", LOSS_STEPS, "--start", f"{work}/start")
                done = subprocess.run([str(word) for word in command], text=True, check=False, capture_output=True)
                if done.returncode:
                    last = done.stderr.strip().splitlines()[-1:]
                    why[name] = "".join(re.findall(r"^unavailable: (.*)", done.stderr, re.M) or ["it fails: ", *last])
                    continue
                losses = [float(loss) for loss in re.findall(r"^loss (\S+)", done.stdout, re.M)]
            else:
                table = f"{work}/losses.csv"
                run(*trainer(program, model, *ours, *rate, "--max-steps", LOSS_STEPS, "--csv", table))
                with open(table, encoding="utf-8") as file:
                    losses = [float(row["loss"]) for row in csv.DictReader(file) if row["loss"]]
                os.remove(table)
            wanted = wanted or losses
            worst = max(abs(a / b - 1) for a, b in zip(losses, wanted, strict=True))
            if not worst <= CLOSE:
                sys.exit(f"error: {model}, {name}: a loss of the first {LOSS_STEPS} steps differs by {worst:.1g} from that of "
                         f"{next(iter(programs))}, more than {CLOSE}, so the speeds compare different trainings")
    return why


def speed(output):
    """Samples per second: the median of a run's ten parts, without the first one, which warms up."""
    rates = [float(rate) for rate in re.findall(r"([\d.]+) (?:images|samples|tokens)/s", output)][1:10]
    per_sample = 64 if "tokens/s" in output else 1
    return statistics.median(rates) / per_sample


def measure(program, model, ranks, batch):
    steps = max(10, MODELS[model][0] // batch // 10 * 10)
    if isinstance(program, str):
        return speed(run(*torch(program, model, ranks, "--batch", batch, "--steps", steps)))
    options = ("--lr", 0.01, "--max-steps", steps, "--log-every", steps // 10, *(
        ("--optimizer", "adamw") if model == "gpt" else ()))
    if program:
        return speed(run(*trainer(program, model, "--batch", batch, *options)))
    # As many processes of step 1 at once, each with its part of the batch.
    children = [start(*trainer(PROGRAMS[1]["step 1"], model, "--batch", batch // ranks, *options)) for _ in range(ranks)]
    return sum(speed(finish(child)) for child in children)


def show(cells):
    widths = -7, 5, 5, -30, 26, 22
    print("  ".join(f"{str(cell):{'<' if w < 0 else '>'}{abs(w)}}" for cell, w in zip(cells, widths)) + (
        f"   {cells[6]}" if cells[6] else ""), flush=True)


def compare(model, ranks, programs, batch):
    """Prints a row for each program. Returns the rows of the CSV file."""
    rounds = [{name: measure(program, model, ranks, batch) for name, program in programs.items()} for _ in range(ROUNDS)]
    first = next(iter(programs))
    for name, program in programs.items():
        speeds = [each[name] for each in rounds]
        gains = [each[first] / each[name] for each in rounds]
        goal = GOALS.get(name, f"at least {MODELS[model][2]}" if isinstance(program, str) and ranks == 1 and batch == 64 else "")
        show([model, batch, ranks, name, spread(speeds), "" if name == first else spread(gains, 2),
              judged(goal, statistics.median(gains))])
    return [{"model": model, "batch": batch, "ranks": ranks, "program": name, "round": number, "samples_per_second":
             f"{each[name]:.1f}"} for number, each in enumerate(rounds, 1) for name in programs]


def use_openblas():
    """Debian's PyTorch takes whatever libblas.so.3 the system points at. From here on that is the OpenBLAS that the CPU
    device would take without oneDNN, with the fastest kernels for this processor. Returns a sentence about them."""
    found = re.search(r"-L(\S*openblas\S*)", run("tools/find_libs.sh", "cpu", PRODUCTS="cblas"))
    if found:
        os.environ["LD_LIBRARY_PATH"] = found[1]
    name, sentence = fastest_kernels(processor_flags(), multiply)
    if name:
        os.environ["OPENBLAS_CORETYPE"] = name
    return sentence


def multiply(name):
    """Multiplies matrices with PyTorch and these kernels of OpenBLAS. Returns the kernels that it took, and GFLOP/s."""
    program = """
import time, torch
a, b = torch.rand(2, 1024, 1024)
best = 1
for _ in range(20):
    begin = time.monotonic()
    a @ b
    best = min(best, time.monotonic() - begin)
print(f"GFLOP/s: {2 * 1024 ** 3 / best / 1e9}")"""
    done = subprocess.run([sys.executable, "-c", program], text=True, check=False, capture_output=True,
                          env={**os.environ, "OPENBLAS_VERBOSE": "2", "OPENBLAS_CORETYPE": name or ""})
    took = re.search(r"^Core: (\S+)", done.stdout + done.stderr, re.M)
    rate = re.search(r"^GFLOP/s: (\S+)", done.stdout, re.M)
    return took and rate and took[1], float(rate[1]) if rate else 0


def main():
    kernels = None if GPU else use_openblas()
    cores = len(os.sched_getaffinity(0))
    load = machine()  # before our own programs run
    banner = run(*trainer(PROGRAMS[1]["step 1"], "mlp", "--max-steps", 1, "--batch", 8))
    print(f"machine   {load}\n{re.search(r'^device .*', banner, re.M)[0]}")
    print(f"compiler  {compiler(f'{build}/01_single_gpu/train')}; "
          f"PyTorch {run(sys.executable, '-c', 'import torch; print(torch.__version__)').strip()}")
    if kernels:
        print(f"products  of PyTorch: {kernels}")
    print(f"samples per second, and how many times as fast step 1 or 2 is: median (lowest-highest) of {ROUNDS} alternating "
          f"runs;\nthe losses of {LOSS_STEPS} steps agree to {CLOSE}; {cores} threads, divided among the ranks\n")
    show(["model", "batch", "ranks", "program", "samples/s", "step 1 or 2 / it", "goal"])
    rows = []
    for ranks in chosen("--ranks", PROGRAMS, int):
        os.environ["OMP_NUM_THREADS"] = str(max(1, cores // ranks))
        os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        if not GPU:
            os.environ["CPU_DEVICES"] = str(ranks)
        programs = {name: program for name, program in PROGRAMS[ranks].items()
                    if not isinstance(program, str) or program in option("--ways", program).split(",")}
        for model in chosen("--models", MODELS if ranks == 1 else ("mlp",)):
            why = check_losses(model, ranks, programs)
            for name, reason in why.items():
                print(f"{model}, {name}: not here: {reason}", flush=True)
            able = {name: program for name, program in programs.items() if name not in why}
            for batch in chosen("--batches", BATCHES[model] if ranks == 1 else (128,), int):
                rows += compare(model, ranks, able, batch)
    files.make_folder(OUT)
    with open(f"{OUT}/speed.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, rows[0])
        table.writeheader()
        table.writerows(rows)


if __name__ == "__main__":
    main()
