#!/usr/bin/env python3
"""Records the timelines that readers of the web site can play with: one training step for each setting of a few options, on
modelled GPUs, which give the same times on every machine. It writes docs/site/timelines/02_multigpu_fork.json and so on for
the steps in SETS, and 06_allreduce_demo.json: what the buffers of four ranks hold before each round of the ring of step 6.

A timeline has a table of names, and for each run its options, its nodes and GPUs per node, how many GPUs divide a matrix, the
time of the step, of its collectives and of their hidden part (in ms, of rank 0), the memory that the program prints (in MB,
without the images), and lists of spans. Ranks with equal spans share a list. A pipeline has, in place of the collectives, the
mean share of the step in which a stage computes nothing, and this share for equal stages whose transfers take no time. A span
is [stream, name, begin, length], in units of 0.1 us from the begin of the step; that of a collective continues with the time for
which it waits for the last rank, and that rank, and that of a waiting stream with the stream and the name of the operation for
which it waits."""
import argparse
import itertools
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # tools/
import files  # noqa: E402
from rehearse import NODE  # noqa: E402
from render import ROOT  # noqa: E402
from trace import arrivals, step_windows, times_of  # noqa: E402
from trace_file import COMPUTING, ROUNDING, read_run  # noqa: E402
from trace_svg import kind_of, label_choices  # noqa: E402

FOLDER = os.path.join(ROOT, "docs", "site", "timelines")
STEP = 2  # the training step that is recorded; the first one begins with empty streams
UNIT = 0.1  # us
UNITS = {"": 1e-6, "K": 1e-3, "M": 1, "G": 1e3}  # MB
RING = "06_allreduce_demo"
SLOW = {"none": "", "last GPU: 1.5 times as long": "{last}:1.5"}
NODES = "nodes for 8 GPUs"
SIZES = ("GPUs", NODES, "width", "batch", "stages", "micro-batches")  # runs that differ in one of them are drawn to different scales
LARGE = {"8, equal stages": 9, "7, unequal stages": 8}  # hidden layers; the first one reads only an image

# For each step: the controls (what changes, and its values), the values that readers see first, the nodes and the GPUs per node,
# and the options of the program.
SETS = {
    "02_multigpu_fork": ({"GPUs": [2, 4, 8], "--overlap": [0, 1], "width": [1024, 4096], "slow device": SLOW},
                         [4, 1, 4096, "none"],
                         lambda s: (1, s["GPUs"]),
                         lambda s: f"--overlap {s['--overlap']} --hidden {','.join([str(s['width'])] * 3)} --batch 1024"),
    "04_multinode": ({NODES: [1, 2, 4], "--overlap": [0, 1], "slow device": {**SLOW, "network of the last node: twice as long": "n{node}:2"}},
                     [2, 1, "none"],
                     lambda s: (s[NODES], 8 // s[NODES]),
                     lambda s: f"--overlap {s['--overlap']} --hidden 4096,4096,4096 --batch 2048"),
    "05_fsdp": ({"GPUs": [2, 4, 8], "--prefetch": [0, 1], "batch": [512, 2048], "slow device": SLOW},
                [4, 1, 2048, "none"],
                lambda s: (1, s["GPUs"]),
                lambda s: f"--prefetch {s['--prefetch']} --hidden 4096,4096,4096 --batch {s['batch']}"),
    "07_large_models": ({"--strategy": ["none", "grad", "full", "hybrid"], "--precision": ["fp32", "bf16"], "--accumulate": [1, 2]},
                        ["none", "fp32", 1],
                        lambda s: (2, 4),
                        lambda s: f"--strategy {s['--strategy']} --precision {s['--precision']} --accumulate {s['--accumulate']} "
                        "--optimizer adam --hidden 4096,4096,4096 --batch 4096"),
    "08_pipeline": ({"stages": [2, 4], "micro-batches": [1, 4, 8], "--pipeline": ["gpipe", "1f1b"], "large layers": LARGE},
                    [4, 8, "1f1b", "8, equal stages"],
                    lambda s: (1, s["stages"]),
                    lambda s: f"--pipeline {s['--pipeline']} --micro-batches {s['micro-batches']} "
                    f"--hidden {','.join(['4096'] * LARGE[s['large layers']])} --batch 4096"),
    "09_tensor": ({NODES: [1, 2], "--tensor": [1, 2, 8], "--sequence": [0, 1]},
                  [1, 8, 0],
                  lambda s: (s[NODES], 8 // s[NODES]),
                  lambda s: f"--stages 1 --micro-batches 1 --tensor {s['--tensor']} --sequence {s['--sequence']} "
                  "--model gpt --layers 2 --width 2048 --heads 16 --context 512 --batch 16 --data text"),
}


def settings(controls):
    """All combinations. A network of nodes is slow only where there is one, and a matrix that is not divided needs no sums."""
    for values in itertools.product(*controls.values()):
        setting = dict(zip(controls, values))
        alone = setting.get(NODES) == 1 and "network" in setting.get("slow device", "")
        if not alone and not (setting.get("--tensor") == 1 and setting["--sequence"]):
            yield setting


def run(step, setting, programs):
    """Returns the trace of all ranks, what the program printed, and its options and GPUs."""
    nodes, per_node = SETS[step][2](setting)
    ranks = nodes * per_node
    variables = {"CPU_DEVICE_MODEL": "h100", "CPU_DEVICE_COMPUTE": "0", "CPU_DEVICE_TOPOLOGY": f"{nodes}x{per_node}"}
    program = [os.path.join(ROOT, programs, step, "train"), *SETS[step][3](setting).split()]
    if "--data" not in program:
        program += ["--data", "synthetic"]
    shown = {"program": " ".join([f"{step}/train", *program[1:]]), "nodes": [nodes, per_node],
             "parts": setting.get("--tensor", 1)}
    slow = SETS[step][0].get("slow device", {}).get(setting.get("slow device"))
    if slow:
        variables["CPU_DEVICE_SLOW"] = shown["slow"] = slow.format(last=ranks - 1, node=nodes - 1)
    with tempfile.TemporaryDirectory() as folder:
        program += ["--max-steps", str(STEP + 1), "--trace", f"{folder}/trace.json"]
        launcher = [os.path.join(ROOT, programs, "03_multigpu_launcher/launch"), "--nproc-per-node", str(ranks), "sh", "-c",
                    NODE.format(per_node, per_node)]
        command = program + ["--nproc", str(ranks)] if step.startswith("02") else launcher + program
        clean = {name: value for name, value in os.environ.items() if not name.startswith("CPU_DEVICE")}
        done = subprocess.run(command, env={**clean, **variables, "OMP_NUM_THREADS": "1"}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if done.returncode:
            sys.exit(f"error: {' '.join(command)}:\n{done.stdout}")
        return read_run([f"{folder}/trace.json"]), done.stdout, shown


def words_of(span):
    return label_choices(span)[0] if span.cat == "collective" else "" if span.cat == "wait" else span.scope() or span.name


def source_of(rank, span):
    """The operation for which a stream waits, or None."""
    arrow = next((a for a in rank.arrows if a.to_row == span.row and abs(a.end - span.end) <= ROUNDING and a.row != a.to_row), None)
    before = [s for s in rank.device_spans() if arrow and s.row == arrow.row and s.end <= arrow.begin + ROUNDING]
    return max(before, key=lambda s: s.end, default=None)


def inside(rank, window):
    return [s for s in rank.spans if s.row > 0 and s.begin < window[1] - ROUNDING and s.end > window[0] + ROUNDING]


def works_of(rank, window, number_of, parts):
    """What a stage of a pipeline computes within the window: forward and backward of each micro-batch, and the update. The
    operations of a layer are the same for each of the parts, so the first ones belong to the first part, and so on."""
    spans = [s for s in inside(rank, window) if s.cat in COMPUTING]
    total, seen, found, words = Counter(s.scope() for s in spans), Counter(), [], ()
    for span in spans:
        scope, kind = span.scope(), kind_of(span)
        if scope:  # the sums of gradients have none, and belong to the layer before
            words = [f"{kind} {seen[scope] * parts // total[scope]}" if kind in ("forward", "backward") else scope, kind]
        if not words:
            continue  # copies of the batch before the first layer
        seen[scope] += 1
        begin, end = (round((time - window[0]) / UNIT) for time in (span.begin, span.end))
        if found and found[-1][1] == number_of(*words) and found[-1][2] + found[-1][3] >= begin - 1:
            found[-1][3] = end - found[-1][2]
        else:
            found.append([span.row, number_of(*words), begin, end - begin])
    return found


def spans_of(rank, window, arrived, number_of):
    """The spans of a rank within the window. Operations of the same layer that follow each other become one. A stream that
    does nothing but wait is left out: with one replica, that of the sums of gradients."""
    found, spans = [], inside(rank, window)
    working = {span.row for span in spans if span.cat != "wait" and span.end - span.begin > UNIT}
    for span in (s for s in spans if s.row in working):
        begin, end = (round((min(max(t, window[0]), window[1]) - window[0]) / UNIT) for t in (span.begin, span.end))
        name = number_of(words_of(span), kind_of(span))
        more = []
        if span.cat == "wait":
            source = source_of(rank, span)
            more = [source.row, number_of(words_of(source), kind_of(source))] if source else []
        elif "comm" in span.args:
            times = arrived.get((span.args["comm"], span.args["number"]), {})
            last = max(times, key=times.get, default=rank.number)
            if times and times[last] - span.begin > UNIT:
                more = [round(min(times[last] - span.begin, span.end - span.begin) / UNIT), last]
        same = found and found[-1][:2] == [span.row, name] and span.cat not in ("wait", "collective")
        if same and found[-1][2] + found[-1][3] >= begin - 1:
            found[-1][3] = end - found[-1][2]
        elif end > begin:
            found.append([span.row, name, begin, end - begin, *more])
    return found


def memory_of(output):
    parts = re.search(r"^memory +(.*)", output, re.MULTILINE)[1].split(", ")
    parts = [re.fullmatch(r"(\w+) ([\d.]+) ([KMG]?)B", part) for part in parts]
    return {part[1]: round(float(part[2]) * UNITS[part[3]], 3) for part in parts if part[1] != "data"}


def timeline(step, setting, programs, names):
    trace, output, shown = run(step, setting, programs)

    def number_of(*name):
        if list(name) not in names:
            names.append(list(name))
        return names.index(list(name))
    first = trace.ranks[0]
    window, arrived = step_windows(first)[STEP - 1], arrivals(trace)
    length, _, collectives, hidden, _, _ = times_of(first, window)
    stages, parts = setting.get("stages"), setting.get("micro-batches")
    lists = []
    for rank in trace.ranks:
        spans = works_of(rank, window, number_of, parts) if stages else spans_of(rank, window, arrived, number_of)
        same = next((one for one in lists if one["spans"] == spans), None)
        if same:
            same["ranks"].append(rank.number)
        else:
            lists.append({"ranks": [rank.number], "spans": spans})
    if stages:
        computing = sum(times_of(rank, window)[1] for rank in trace.ranks)
        shares = {"idle": [round(1 - computing / length / stages, 3), round((stages - 1) / (parts + stages - 1), 3)]}
    else:
        shares = {"collectives": round(collectives / 1000, 3), "hidden": round(hidden / 1000, 3)}
    times = {"step": round(length / 1000, 3), **shares}
    return {"setting": list(map(str, setting.values())), **shown, **times, "memory": memory_of(output), "lists": lists}


def record(step, programs, wanted=None):
    """wanted: the place of the only run to make, or None for all."""
    if step == RING:
        done = subprocess.run([os.path.join(ROOT, programs, "bench/ring_rounds"), "--nproc", "4"], stdout=subprocess.PIPE, text=True,
                              env={**os.environ, "CPU_DEVICES": "4"}, check=True)
        return {"states": [json.loads(line) for line in done.stdout.splitlines()]}
    controls, names = SETS[step][0], []
    chosen = list(settings(controls))
    chosen = chosen if wanted is None else [chosen[wanted % len(chosen)]]
    runs = [timeline(step, setting, programs, names) for setting in chosen]
    return {"controls": [{"name": name, "values": list(map(str, values)), "start": str(start), "size": name in SIZES}
                         for (name, values), start in zip(controls.items(), SETS[step][1])], "names": names, "runs": runs}


def named(document):
    """The runs with names in place of their numbers, for a comparison."""
    def spell(span):
        return [span[0], document["names"][span[1]], *span[2:4], *span[4:5], *([document["names"][span[5]]] if
                document["names"][span[1]][1] == "wait" and span[5:] else span[5:])]
    return {tuple(one["setting"]): {**one, "lists": [{**group, "spans": list(map(spell, group["spans"]))} for group in one["lists"]]}
            for one in document["runs"]}


def agree(a, b):
    """Whether two values are equal, apart from the rounding of times."""
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(agree(a[key], b[key]) for key in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(agree, a, b))
    return abs(a - b) <= (0.001 if isinstance(a, float) else 1) if isinstance(a, (int, float)) else a == b


def compare(step, recorded, programs, wanted):
    """The problem of a step, or None."""
    made = record(step, programs, wanted)
    if step == RING:
        return None if made == recorded else "the buffers differ"
    (setting, run_now), before = next(iter(named(made).items())), named(recorded)
    if [tuple(map(str, one.values())) for one in settings(SETS[step][0])] != list(before):
        return "other settings are recorded"
    return None if agree(run_now, before[setting]) else f"the run {' '.join(setting)} differs"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", metavar="FOLDER", default="build/cpu", help="the built programs (default: %(default)s)")
    parser.add_argument("--check", metavar="N", type=int, help="write nothing; compare run N of each step with a new one")
    parser.add_argument("--folder", default=FOLDER, help="the recorded files (default: docs/site/timelines)")
    parser.add_argument("steps", metavar="STEP", nargs="*", default=sorted([*SETS, RING]), help="only these, such as 05_fsdp")
    options = parser.parse_args()
    problems = 0
    for step in options.steps:
        path = os.path.join(options.folder, f"{step}.json")
        if options.check is None:
            files.make_folder(options.folder)
            files.write(path, json.dumps(record(step, options.programs), separators=(",", ":")).replace('{"setting"', '\n{"setting"') + "\n")
            print(f"recorded {os.path.relpath(path, ROOT)}")
            continue
        with open(path, encoding="utf-8") as file:
            problem = compare(step, json.load(file), options.programs, options.check)
        if problem:
            print(f"error: {os.path.relpath(path, ROOT)}: {problem}; make record records it again", file=sys.stderr)
            problems += 1
    return problems > 0


if __name__ == "__main__":
    sys.exit(main())
