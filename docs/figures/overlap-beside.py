"""Rank 0 in a training step of step 2, on a modelled H100 and on the CPU device. These commands record the traces: first with
CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 in the environment and NAME=modelled, then without and with NAME=measured. For
the measured trace, chrt -r 1 stood before the program, because other programs used the two cores of the machine.

CPU_DEVICES=2 02_multigpu_fork/train --nproc 2 --data synthetic --hidden 2048,2048,2048 --batch 1024 --max-steps 2 \\
    --trace trace.json
tools/trace.py trace.json -o merged.json && grep -vE '"cat": "(host|copy)"' merged.json >docs/figures/overlap-NAME.json
"""
import os

import trace_svg
from drawing import Figure
from trace import arrivals, step_windows
from trace_file import read_run

WIDTH, FIRST, SECOND = 800, 42, 196  # the tops of the timelines
FOLDER = os.path.dirname(os.path.abspath(__file__))


def timeline(f, name, device, top):
    """Draws training step 2 of rank 0. Returns the picture, for the legend."""
    run = read_run([f"{FOLDER}/overlap-{name}.json"])
    rank = run.ranks[0]
    window = step_windows(rank)[1]
    picture, _ = trace_svg.paint([rank], {0: window}, {0: []}, arrivals(run), width=WIDTH, top=top)
    time = (window[1] - window[0]) / 1000
    f.text(12, top - 22, f"{device}, {run.clock.split()[0]}: {time:,.{3 if time < 1 else 0}f} ms", 16, "start", bold=True)
    f.elements += picture.elements
    return picture


def draw():
    f = Figure("A training step of step 2, modelled and measured",
               "Two timelines of the same program and the same training step. On both, stream 2 sums the gradients of a layer "
               "while stream 1 computes the gradients of the layer before it, and the update waits for the last sum. Above, an "
               "H100, modelled: the sums of the last two layers hide behind backward. Below, the CPU device, measured: "
               "communication and computation share two cores.",
               width=WIDTH)
    f.elements.append(trace_svg.DEFINITIONS)
    above = timeline(f, "modelled", "H100", FIRST)
    below = timeline(f, "measured", "CPU device, two ranks on two cores", SECOND)
    below.elements = []
    below.kinds = {kind: [] for kind in {**above.kinds, **below.kinds} if kind != "other"}  # which is too short to be seen
    below.kinds["collective"] = ["AR: all-reduce"]
    f.height = trace_svg.draw_legend(below, True)
    f.elements += below.elements
    return f
