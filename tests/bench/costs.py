"""costs.py BUILD [--rounds N]: what --profile and --trace cost: the seconds of runs without them, with --profile,
and with --trace, which alternate."""
import os
import sys
import tempfile
import time

from bench import compiler, machine, option, ratio, run, show, spread

ROUNDS = int(option("--rounds", 10))
build = sys.argv[1]
FEW = ("--data", "synthetic", "--log-every", 1000000, "--epochs", 2)
RUNS = {"step 1, default model": (f"{build}/01_single_gpu/train", *FEW),
        "step 1, --hidden 64 --batch 32": (f"{build}/01_single_gpu/train", *FEW, "--hidden", 64, "--batch", 32),
        "step 2, 2 ranks": (f"{build}/02_multigpu_fork/train", *FEW, "--nproc", 2, "--hidden", 128)}


def measure(*command):
    begin = time.monotonic()
    run(*command)
    return time.monotonic() - begin


os.environ["OMP_NUM_THREADS"] = "1"
os.environ["CPU_DEVICES"] = "2"
print(f"machine   {machine()}")
print(f"compiler  {compiler(RUNS['step 2, 2 ranks'][0])}")
print(f"\nseconds: median (lowest-highest) of {ROUNDS} alternating runs; ratio: median of the rounds")
show("", ["without", "--profile / without", "--trace / without"], "goal", (32, 24))
with tempfile.TemporaryDirectory() as folder:
    for name, command in RUNS.items():
        rounds = [(measure(*command), measure(*command, "--profile"), measure(*command, "--trace", f"{folder}/trace.json"))
                  for _ in range(ROUNDS)]
        plain, profiled, traced = zip(*rounds)
        show(name, [spread(plain, 2), ratio(profiled, plain), ratio(traced, plain)], "--profile below 1.03", (32, 24))
