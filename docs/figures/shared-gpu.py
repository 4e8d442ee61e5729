"""A training step of two ranks of step 2 that share one GPU, an NVIDIA H200 with MPS and NCCL 2.30.7, on 27 November 2026:

SHARE_GPUS=1 tools/mps.sh 02_multigpu_fork/train --nproc 2 --data synthetic --hidden 4096,4096 --batch 2048 --max-steps 12 \\
    --log-every 1000000 --trace trace.json
tools/trace.py trace.json -o merged.json && grep -vE '"cat": "(host|copy)"' merged.json >docs/figures/shared-gpu.json
"""
import os

import trace_svg
from drawing import Figure
from trace import arrivals, step_windows
from trace_file import read_run

STEP = 10


def draw():
    f = Figure("A training step of two ranks on one GPU, measured",
               "Timelines of two ranks that share an NVIDIA H200. On both, stream 2 sums the gradients of a layer while stream 1 "
               "computes the gradients of the layer before it, and a rank that is early waits for the other one.", width=800)
    f.elements.append(trace_svg.DEFINITIONS)
    run = read_run([os.path.dirname(os.path.abspath(__file__)) + "/shared-gpu.json"])
    windows = {rank.number: step_windows(rank)[STEP - 1] for rank in run.ranks}
    begin = min(window[0] for window in windows.values())
    end = max(window[1] for window in windows.values())
    picture, _ = trace_svg.paint(run.ranks, {number: (begin, end) for number in windows}, {0: [], 1: []}, arrivals(run),
                                 width=800, top=42)
    f.text(12, 20, f"two ranks on one H200, {run.clock.split()[0]}: {(end - begin) / 1000:.1f} ms", 16, "start", bold=True)
    f.elements += picture.elements
    picture.elements = []
    f.height = trace_svg.draw_legend(picture, True)
    f.elements += picture.elements
    return f
