#!/usr/bin/env python3
"""Counts what a training step asks the device to do, for each step of the course, number of ranks and model. It trains
twice on the CPU device, the second time for more training steps, and divides the difference of the counts
(CPU_DEVICE_COUNTS) by the training steps and ranks. So it leaves out what happens once, such as copies of the images.

kernels      launches of kernels of the course
products     matrix products of cuBLAS and cuBLASLt
copies       cudaMemcpyAsync and cudaMemcpy
memsets      cudaMemsetAsync and cudaMemset
collectives  calls of NCCL, also those of a group one by one
events       calls of cudaEventRecord and cudaStreamWaitEvent
waits        calls in which the host waits for the device
MB           what the kernels read and write
together     all of these but MB, so all calls that queue work or wait for it
us           the time of a training step on modelled H100s of one node

The batch is 128. A block is one of gpt2 with 8 samples: the difference of models with two blocks and with one. The runs
leave out the arithmetic (CPU_DEVICE_COMPUTE=0), because the calls do not depend on it. Step 9 divides mlp and gpt only, so
it has no rows with several ranks for other models."""
import argparse
import glob
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
STEPS = {os.path.basename(folder)[1]: os.path.basename(folder) for folder in sorted(glob.glob(f"{ROOT}/0*"))
         if os.path.exists(f"{folder}/train.c")}
DIVIDED = ["mlp", "gpt"]  # by step 9
MODELS = {"mlp": "--model mlp", "cnn": "--model cnn", "resnet20": "--model resnet --depth 20",
          "resnet18": "--model resnet --depth 18", "gpt": "--model gpt --size tiny"}
BLOCKS = {"block": "--model gpt --size gpt2 --batch 8", "block-bf16": "--model gpt --size gpt2 --batch 8 --precision bf16"}
NAMES = ["kernels", "products", "copies", "memsets", "collectives", "events", "waits", "MB"]
FEW, MANY = 6, 18  # training steps of the two runs


def run(programs, step, ranks, options, training_steps, folder):
    """Returns the sums of the counts over all ranks, and the modelled seconds of the slowest one."""
    counts = os.path.join(folder, "counts")
    command = [f"{programs}/{STEPS[step]}/train", "--max-steps", str(training_steps), "--log-every", "1000000",
               *options.split(), "--data", f"text:{folder}/text" if "gpt" in options else "synthetic"]
    if step == "2":
        command += ["--nproc", str(ranks)]
    elif step != "1":
        command = [f"{programs}/03_multigpu_launcher/launch", "--nproc-per-node", str(ranks), *command]
    variables = {"CPU_DEVICES": str(ranks), "CPU_DEVICE_MODEL": "h100", "CPU_DEVICE_COMPUTE": "0", "CPU_DEVICE_COUNTS": counts,
                 "NCCL_SOCKET_IFNAME": "lo"}
    done = subprocess.run(command, env={**os.environ, **variables}, cwd=folder, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"error: step {step} with {ranks} ranks and {options} failed:\n{done.stderr}")
    with open(counts, encoding="utf-8") as file:
        rows = [[float(word) for word in line.split()] for line in file]
    os.remove(counts)
    rows = [row for row in rows if sum(row[:2])]  # a process without kernels is no rank
    if len(rows) != ranks:
        sys.exit(f"error: step {step} has {len(rows)} ranks, not {ranks}")
    return [sum(column) for column in zip(*rows)][:-1], max(row[-1] for row in rows)


def count(programs, step, ranks, options):
    """Returns the counts of a training step of one rank, and after them its modelled microseconds."""
    with tempfile.TemporaryDirectory() as folder:
        with open(f"{folder}/text", "w", encoding="utf-8") as file:
            file.write("To be, or not to be, that is the question.\n" * 20000)
        few, seconds = run(programs, step, ranks, options, FEW, folder)
        many, later = run(programs, step, ranks, options, MANY, folder)
    each = [(b - a) / (MANY - FEW) / ranks for a, b in zip(few, many)]
    return [*each[:-1], each[-1] / 1e6, (later - seconds) / (MANY - FEW) * 1e6]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", default=",".join(STEPS), help="such as 1,2")
    parser.add_argument("--ranks", default="1,2,4")
    parser.add_argument("--models", default=",".join(MODELS), help=f"also {', '.join(BLOCKS)} (in step 7)")
    parser.add_argument("--programs", type=os.path.abspath, default=f"{ROOT}/build/cpu",
                        help="folder of the built programs")
    args = parser.parse_args()
    print(f"{'model':10}{'step':>5}{'ranks':>6}" + "".join(f"{name:>12}" for name in NAMES + ["together", "us"]), flush=True)
    for model in args.models.split(","):
        for step in args.steps.split(","):
            for ranks in ["1"] if step == "1" else args.ranks.split(","):
                if step == "9" and int(ranks) > 1 and model not in DIVIDED:
                    continue
                layers = [MODELS[model]] if model in MODELS else [f"{BLOCKS[model]} --layers {n}" for n in (2, 1)]
                counts = [count(args.programs, step, int(ranks), options) for options in layers]
                *each, us = counts[0] if model in MODELS else [two - one for two, one in zip(*counts)]
                numbers = [f"{round(number, 2):12g}" for number in [*each, sum(each[:-1])]]
                print(f"{model:10}{step:>5}{ranks:>6}" + "".join(numbers) + f"{us:12.1f}", flush=True)


if __name__ == "__main__":
    main()
