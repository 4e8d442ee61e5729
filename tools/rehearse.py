#!/usr/bin/env python3
"""Rehearses a training run on 1 to 64 GPUs that are not here: steps 7 and 9 run on the CPU device with a modelled clock
(CPU_DEVICE_MODEL) and without arithmetic (CPU_DEVICE_COMPUTE=0). Prints for each strategy how long a training step
takes, how well it scales, and what bounds it. All times are modelled; none is measured. Options that are not in the
list below are those of the program: 09_tensor/train for the strategies pipeline and tensor, 07_large_models/train for
the others, such as --hidden 8192,8192 or --precision bf16."""
import argparse
import csv
import io
import os
import re
import subprocess
import sys
import tempfile
from typing import NamedTuple

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
import files  # noqa: E402
from trace import step_windows, times_of  # noqa: E402
from trace_file import load, read_document  # noqa: E402

SHARDED = {"none": "none, as DDP", "full": "full, as FSDP and ZeRO-3", "grad": "grad, as ZeRO-2",
           "hybrid": "hybrid, sharded inside a node"}
# Of step 9, with its options. It takes as many stages as ranks and layers allow.
DIVIDED = {"pipeline": ("pipeline, the layers divided", ["--tensor", "1"]),
           "tensor": ("tensor, the matrices divided inside a node, the layers between nodes", [])}
STRATEGIES = {**SHARDED, **{name: text for name, (text, _) in DIVIDED.items()}}
OURS = ("--data", "--epochs", "--max-steps", "--strategy", "--trace", "--csv", "--snapshot", "--log-every")
STEPS = 4  # the first one begins with empty streams, so the table shows the mean of the others
EVERYTHING = "240G"  # to measure the memory of runs that do not fit; the CPU device has addresses for this much
# Sets for a rank the variables of a node of its own.
NODE = """first=$((RANK / {0} * {0})) LOCAL_RANK=$((RANK % {0})) LOCAL_WORLD_SIZE={1}
CUDA_VISIBLE_DEVICES=$(seq -s , $first $((first + {1} - 1)))
export LOCAL_RANK LOCAL_WORLD_SIZE CUDA_VISIBLE_DEVICES
exec "$0" "$@"
"""


class Row(NamedTuple):
    """The result of a run. Times are in milliseconds per training step, memory is in bytes without the images."""
    strategy: str
    gpus: int
    fits: bool
    batch: int
    memory: float
    step: float = 0
    computing: float = 0
    communication: float = 0  # that shows, as it is not hidden behind computing
    host: float = 0  # the streams are idle, because the host has not yet launched their work
    layout: str = ""  # of step 9

    def rate(self):
        return 1000 * self.batch / self.step

    def bound(self):
        parts = {"computing": self.computing, "communication": self.communication, "host": self.host}
        return max(parts, key=parts.get) if self.fits else "memory"


class Failed(Exception):
    """A line for the user."""


def numbers(text):
    found = [int(n) for n in re.findall(r"\d+", text)]
    if not re.fullmatch(r"\d+(,\d+)*", text) or not all(1 <= n <= 64 for n in found) or sorted(set(found)) != found:
        raise argparse.ArgumentTypeError(f"{text}: want numbers from 1 to 64 in order, such as 1,2,4")
    return found


def positive(text):
    if not re.fullmatch(r"\d{1,7}", text) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: want a number above 0")
    return int(text)


def strategies(text):
    for name in text.split(","):
        if name not in STRATEGIES:
            raise argparse.ArgumentTypeError(f"{name}: the strategies are: {', '.join(STRATEGIES)}")
    return text.split(",")


def read_options():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--gpus", type=numbers, default="1,2,4,8,16,32,64", help="numbers of GPUs (%(default)s)")
    parser.add_argument("--gpus-per-node", type=positive, default=8, help="%(default)s")
    parser.add_argument("--strategies", type=strategies, default=",".join(SHARDED),
                        help="%(default)s; also: " + ", ".join(DIVIDED))
    parser.add_argument("--batch", type=positive, default=256, help="images per GPU and training step (%(default)s)")
    parser.add_argument("--strong", action="store_true",
                        help="strong scaling: --batch is for all GPUs together, so each GPU computes less on more GPUs")
    parser.add_argument("--out", default="build/rehearse", help="folder of rehearse.csv (%(default)s)")
    parser.add_argument("--build", default="build/cpu", help="folder of the programs (%(default)s)")
    options, options.train = parser.parse_known_args()
    for word in options.train:
        if word.split("=")[0] in OURS:
            parser.error(f"{word} is not for a rehearsal, which sets it itself")
    for gpus in options.gpus:
        if gpus > options.gpus_per_node and gpus % options.gpus_per_node:
            parser.error(f"--gpus {gpus}: not a whole number of nodes of {options.gpus_per_node} GPUs")
        if options.strong and options.batch % gpus:
            parser.error(f"--batch {options.batch}: not divisible by {gpus} GPUs")
    return options


def program(options, strategy):
    """The training program, with the options that make it use the strategy."""
    if strategy in DIVIDED:
        return [f"{options.build}/09_tensor/train", *DIVIDED[strategy][1]]
    return [f"{options.build}/07_large_models/train", "--strategy", strategy]


def launch(options, strategy, gpus, folder, memory):
    """Runs the training program on all ranks, and returns what it printed. Raises Failed if it failed."""
    local = min(gpus, options.gpus_per_node)
    batch = options.batch * (1 if options.strong else gpus)
    environment = {"CPU_DEVICE_MODEL": "h100", "NCCL_SOCKET_IFNAME": "lo", **os.environ, "CPU_DEVICE_COMPUTE": "0",
                   "CPU_DEVICE_TOPOLOGY": f"{gpus // local}x{local}", "OMP_NUM_THREADS": "1"}
    for name in ("CPU_DEVICES", "CUDA_VISIBLE_DEVICES", "NCCL_HOSTID", "CPU_DEVICE_CHAOS", "CPU_DEVICE_CHECK",
                 "CPU_DEVICE_MEMORY"):
        environment.pop(name, None)
    # Ranks that share a core take turns.
    turns = max(1, gpus // len(os.sched_getaffinity(0)))
    environment.setdefault("CPU_DEVICE_TIMEOUT", str(300 * turns))
    limits = ["--join-timeout", str(60 * turns), "--step-timeout", str(120 * turns)]
    if memory:
        environment["CPU_DEVICE_MEMORY"] = memory
    command = [f"{options.build}/03_multigpu_launcher/launch", "--nproc-per-node", str(gpus), "sh", "-c",
               NODE.format(options.gpus_per_node, local), *program(options, strategy), "--data", f"blank:{STEPS * batch}", "--batch", str(batch), "--max-steps", str(STEPS),
               "--trace", f"{folder}/trace.json", *limits, *options.train]
    if not os.access(command[0], os.X_OK):
        raise Failed(f"error: {command[0]} is not built; make rehearse builds it")
    done = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        errors = re.findall(r"error.*", done.stdout) or done.stdout.splitlines()[-1:]
        raise Failed(errors[0] if errors else f"{command[0]} ended with {done.returncode}")
    return done.stdout


def read_memory(output):
    """The bytes of a rank without the images, from the table of costs. The table of step 9 lacks the bytes of scratch, which
    the banner has."""
    costs = dict(re.findall(r"^  (\w+) +(\d+) ", output, re.M))
    exact = re.search(r"and scratch (\d+)", output)
    rounded = re.search(r"^memory .*scratch ([\d.]+) ([KMG]?)B", output, re.M)
    scratch = int(exact[1]) if exact else float(rounded[1]) * {"": 1, "K": 1e3, "M": 1e6, "G": 1e9}[rounded[2]] if rounded else 0
    return round(scratch) + sum(int(costs.get(kind, 0))
                                for kind in ("parameters", "gradients", "optimizer", "gathered", "activations"))


def read_layout(output):
    """How step 9 has divided the ranks; empty for other steps."""
    stages, parts = re.search(r"^pipeline .* (\d+) stages?, (\d+) replica", output, re.M), re.search(r"^tensor +(\d+)", output, re.M)
    return f"{parts[1]} x {stages[1]} x {stages[2]}" if stages and parts else ""


def rehearse(options, strategy, gpus):
    """Returns the row, and the output of the run."""
    batch = options.batch * (1 if options.strong else gpus)
    with tempfile.TemporaryDirectory() as folder:
        try:
            output = launch(options, strategy, gpus, folder, None)
        except Failed as failure:
            if "out of device memory" not in str(failure):
                raise
            try:
                output = launch(options, strategy, gpus, folder, EVERYTHING)
            except Failed as again:
                if "out of device memory" not in str(again):
                    raise
                return Row(strategy, gpus, False, batch, 0), None
            return Row(strategy, gpus, False, batch, read_memory(output), layout=read_layout(output)), output
        path = f"{folder}/trace{'.0' if gpus > 1 else ''}.json"
        rank = read_document(path, load(path))[0]
    steps = step_windows(rank)
    window, computing, _, _, shown, idle = (t / 1000 / (STEPS - 1) for t in times_of(rank, (steps[1][0], steps[-1][1])))
    return Row(strategy, gpus, True, batch, read_memory(output), window, computing, shown, idle, read_layout(output)), output


def efficiency(row, base):
    """In per cent of the images per second and GPU of the smallest run that fits."""
    return 100 * row.rate() * base.gpus / (base.rate() * row.gpus)


def print_heading(options, output):
    model = re.search(r"modelled as ([^,)]*)", output)
    print(f"These times are modelled: {model[1] if model else 'unknown'} GPUs, {options.gpus_per_node} per node. No GPU runs, "
          "and nothing is measured.")
    print(re.sub(r"^model +", "model    ", re.search(r"^model .*", output, re.M)[0]))
    print("scaling  " + (f"strong: {options.batch} images per training step on all GPUs together" if options.strong else
                         f"weak: {options.batch} images per training step on each GPU") + "\n")


def print_row(row, base):
    memory = f"{row.memory / 1e9:10.3f}" if row.memory else "     > 240"
    if not row.fits:
        print(f"{row.gpus:4}  {'-':>9}  {'-':>10}  {'-':>10}  {memory}  {'-':>9}  {'-':>13}  {'-':>5}  memory: it does not fit"
              + (f"  {row.layout}" if row.layout else ""))
        return
    parts = [100 * part / row.step for part in (row.computing, row.communication, row.host)]
    print(f"{row.gpus:4}  {row.step:9.3f}  {row.rate():10.0f}  {efficiency(row, base):8.1f} %  {memory}  "
          f"{parts[0]:7.1f} %  {parts[1]:11.1f} %  {parts[2]:3.0f} %  "
          + (f"{row.bound():13}  {row.layout}" if row.layout else row.bound()), flush=True)


def run_all(options):
    """Prints the tables. Returns the rows, and for each strategy the smallest run that fits."""
    rows, bases = [], {}
    for strategy in options.strategies:
        for gpus in options.gpus:
            row, output = rehearse(options, strategy, gpus)
            if not rows:
                print_heading(options, output or "")
            if gpus == options.gpus[0]:
                print(f"--strategy {STRATEGIES[strategy]} (modelled)\n"
                      "GPUs    step ms    images/s  efficiency  GB per GPU  computing  communication   host  bound by"
                      + ("       tensor x stages x replicas" if strategy in DIVIDED else ""))
            rows.append(row)
            if row.fits:
                bases.setdefault(strategy, row)
            print_row(row, bases.get(strategy))
        print(flush=True)
    return rows, bases


def write_csv(path, rows, bases):
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow("strategy gpus batch step_ms images_per_second efficiency memory_bytes computing_ms communication_ms "
                   "host_ms bound clock".split())
    for r in rows:
        times = ["", "", "", r.memory or "", "", "", ""] if not r.fits else \
            [f"{r.step:.4f}", f"{r.rate():.1f}", f"{efficiency(r, bases[r.strategy]):.2f}", r.memory,
             f"{r.computing:.4f}", f"{r.communication:.4f}", f"{r.host:.4f}"]
        table.writerow([r.strategy, r.gpus, r.batch, *times, r.bound(), "modelled"])
    files.write(path, text.getvalue())


def main():
    options = read_options()
    rows, bases = run_all(options)
    files.make_folder(options.out)
    write_csv(f"{options.out}/rehearse.csv", rows, bases)
    print(f"written: {options.out}/rehearse.csv")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
