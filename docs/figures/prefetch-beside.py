"""Rank 0 in a training step of step 5, on a modelled H100, without and with prefetch. These commands record the traces, with
P=0 and P=1:

CPU_DEVICES=2 CPU_DEVICE_MODEL=h100 CPU_DEVICE_COMPUTE=0 03_multigpu_launcher/launch --nproc-per-node 2 05_fsdp/train \\
    --data synthetic --hidden 4096,4096,4096 --batch 1024 --max-steps 2 --prefetch $P --trace trace.json
tools/trace.py trace.json -o merged.json && grep -vE '"cat": "(host|copy)"' merged.json >docs/figures/prefetch-$P.json
"""
import os

import trace_svg
from drawing import Figure
from trace import arrivals, step_windows
from trace_file import read_run

WIDTH, TOPS = 800, (42, 196)
FOLDER = os.path.dirname(os.path.abspath(__file__))


def draw():
    f = Figure("A training step of step 5, without and with prefetch",
               "Two timelines of a modelled H100. Without prefetch, stream 1 waits while stream 2 gathers each layer. With prefetch, stream 2 "
               "gathers the next layer while stream 1 computes, and the training step is shorter.", width=WIDTH)
    f.elements.append(trace_svg.DEFINITIONS)
    length = None
    for prefetch, top in enumerate(TOPS):
        run = read_run([f"{FOLDER}/prefetch-{prefetch}.json"])
        rank = run.ranks[0]
        window = step_windows(rank)[1]
        length = length or window[1] - window[0]  # both have the scale of the longer one, the first
        picture, _ = trace_svg.paint([rank], {0: (window[0], window[0] + length)}, {0: []}, arrivals(run), width=WIDTH, top=top)
        time = (window[1] - window[0]) / 1000
        f.text(12, top - 22, f"{('without', 'with')[prefetch]} prefetch, H100, {run.clock.split()[0]}: {time:.3f} ms", 16, "start", bold=True)
        f.elements += picture.elements
    picture.elements = []  # the legend is that of both
    f.height = trace_svg.draw_legend(picture, True)
    f.elements += picture.elements
    return f
