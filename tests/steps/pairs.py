#!/usr/bin/env python3
"""pairs.py: reads the --help of a trainer, and prints options for a few runs, one run a line. Each pair of values of two
options is in one of the runs. Each option of --help must have values here, and so must each word of a list in --help, such as
"kind of model: mlp, cnn". The first word of a line is the number of ranks."""
import itertools
import random
import re
import sys

LEFT_OUT = ""
VALUES = {
    "ranks": ["1", "3"],
    "data": ["images", "blank:480", "text:text"],
    "model": ["mlp", "cnn", "resnet", "gpt"],
    "hidden": ["9", "4,5,6"],
    "depth": ["8", "14"],
    "size": ["tiny"],
    "layers": ["1"],
    "heads": ["2"],
    "width": ["8", "16"],
    "context": ["16"],
    "dropout": ["auto", "0.2"],
    "augment": ["none", "crop,flip"],
    "label-smoothing": ["0", "0.1"],
    "epochs": ["2"],
    "max-steps": ["3"],
    "batch": ["12", "24"],
    "optimizer": ["sgd", "adam", "adamw", "adadelta"],
    "lr": ["auto", "0.01"],
    "schedule": ["constant", "step", "cosine", "onecycle"],
    "warmup": ["0", "2"],
    "gamma": ["0.7", "0.5"],
    "step-epochs": ["1", "2"],
    "momentum": ["0.9", "0"],
    "nesterov": ["0", "1"],
    "weight-decay": ["0", "0.1"],
    "beta1": ["0.9", "0.5"],
    "beta2": ["0.999", "0.9"],
    "rho": ["0.9", "0.5"],
    "epsilon": ["auto", "1e-4"],
    "tf32": ["0", "1"],
    "seed": ["1", "7"],
    "log-every": ["1", "100"],
    "snapshot": ["s"],
    "save-every": ["1", "2"],
    "save-minutes": ["0", "1e-9"],
    "summary": [LEFT_OUT, "1"],
    "profile": [LEFT_OUT, "1"],
    "trace": [LEFT_OUT, "trace.json"],
    "csv": [LEFT_OUT, "csv"],
    "overlap": ["0", "1"],
    "join-timeout": ["60"],
    "step-timeout": ["60"],
    "token-file": [LEFT_OUT, "token"],
    "prefetch": ["0", "1"],
    "strategy": ["full", "grad", "hybrid", "none"],
    "unit-bytes": ["0", "100000"],
    "recompute": ["0", "1"],
    "precision": ["fp32", "bf16"],
    "accumulate": ["1", "2"],
    "clip": ["0", "0.1"],
    "save": ["sharded", "full"],
}
SWITCHES = ("summary", "profile")  # they take no value
TOO_SLOW = ["size"]  # most of its words are models that take minutes
REFUSED = {frozenset(pair) for pair in (
    (("nesterov", "1"), ("momentum", "0")), (("nesterov", "1"), ("optimizer", "adam")),
    (("nesterov", "1"), ("optimizer", "adamw")), (("nesterov", "1"), ("optimizer", "adadelta")),
    (("warmup", "2"), ("schedule", "onecycle")), (("dropout", "0.2"), ("model", "resnet")),
    (("model", "gpt"), ("data", "images")), (("model", "gpt"), ("data", "blank:480")),
    (("model", "gpt"), ("augment", "crop,flip")), (("data", "text:text"), ("augment", "crop,flip")),
    *((("model", name), ("data", "text:text")) for name in ("mlp", "cnn", "resnet")))}


def pairs_of(run):
    return {frozenset(pair) for pair in itertools.combinations(run.items(), 2)}


def complete(run, names, number):
    """The run with a random value for each option that it lacks, without a refused pair."""
    whole = {name: run[name] if name in run else number.choice(VALUES[name]) for name in names}
    return complete(run, names, number) if pairs_of(whole) & REFUSED else whole


def cover(names):
    """A list of runs. Each begins with a pair that the runs before lack; of several candidates, the one with the most new
    pairs is taken."""
    number = random.Random(1)
    left = set()
    for a, b in itertools.combinations(names, 2):
        left |= {frozenset(((a, x), (b, y))) for x in VALUES[a] for y in VALUES[b]}
    left -= REFUSED
    runs = []
    while left:
        pair = dict(max(left, key=sorted))
        best = max((complete(pair, names, number) for _ in range(30)), key=lambda run: len(pairs_of(run) & left))
        left -= pairs_of(best)
        runs.append(best)
    return runs


help_text = sys.stdin.read()
names = ["ranks"] + re.findall(r"^  --([a-z0-9-]+) ", help_text, re.MULTILINE)
names = [name for name in names if name != "help"]
unknown = [f"--{name}" for name in names if name not in VALUES]
for name, words in re.findall(r"^  --([a-z0-9-]+) .*: (\w+(?:, \w+)+)(?: \[.*\])? \(", help_text, re.MULTILINE):
    if name not in TOO_SLOW:
        unknown += [f"--{name} {word}" for word in words.split(", ") if word not in VALUES.get(name, [])]
if unknown:
    sys.exit(f"error: pairs.py needs values for {', '.join(unknown)}")
for run in cover(names):
    words = [f"--{name}" if name in SWITCHES else f"--{name} {value}"
             for name, value in run.items() if name != "ranks" and value != LEFT_OUT]
    print(run["ranks"], *words)
