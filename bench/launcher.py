"""launcher.py BUILD [--rounds N]: what our launcher costs, compared with torchrun: a program that does nothing, and the
way from a rank that is killed to the next attempt of all."""
import os
import sys
import time

from bench import machine, option, ratio, run, show, spread

ROUNDS = int(option("--rounds", 20))
build = sys.argv[1]
LAUNCH = (f"{build}/03_multigpu_launcher/launch",)
TORCHRUN = ("/usr/bin/python3", "-B", "tests/steps/torchrun/torchrun.py", "--no_python",
            "--monitor_interval", "0.1")  # which is what later versions do by themselves
# Rank 0 says when it was killed, and when it is there again.
DIES = ("sh", "-c", "[ $RANK != 0 ] || date +%s.%N; [ $TORCHELASTIC_RESTART_COUNT = 1 ] || [ $RANK != 0 ] || kill -9 $$")
WIDTHS = 44, 24


def start_up(launcher, nproc):
    """Milliseconds from the start of the launcher to its end."""
    begin = time.monotonic()
    run(*launcher, "--nproc_per_node", nproc, "true")
    return 1000 * (time.monotonic() - begin)


def recovery(launcher):
    """Milliseconds between the two attempts of rank 0, where nothing has to be waited for."""
    output = run(*launcher, "--nproc_per_node", 2, "--max_restarts", 1, *DIES)
    killed, back = map(float, output.split())
    return 1000 * (back - killed)


def compare(label, measure, *arguments, goal=""):
    rounds = [(measure(LAUNCH, *arguments), measure(TORCHRUN, *arguments)) for _ in range(ROUNDS)]
    ours, theirs = zip(*rounds)
    show(label, [spread(ours, 1), spread(theirs), ratio(theirs, ours, min)], goal, WIDTHS)


os.environ["OMP_NUM_THREADS"] = "1"
print(f"machine   {machine()}")
print(f"torchrun  of PyTorch {run('/usr/bin/python3', '-c', 'import torch; print(torch.__version__)')}", end="")
print(f"\nmilliseconds: median (lowest-highest) of {ROUNDS} alternating runs; ratio: median of the rounds (of the best)")
show("", ["ours", "torchrun", "torchrun / ours"], "goal", WIDTHS)
compare("start and end, 1 rank", start_up, 1, goal="below 10")
compare("start and end, 2 ranks", start_up, 2, goal="below 10")
compare("start and end, 64 ranks", start_up, 64)
compare("from a rank killed to all there again", recovery)
