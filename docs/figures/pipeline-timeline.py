"""The second training step of step 8 with each schedule, on four modelled H100: two of the timelines that tools/author/timelines.py
records for the web site."""
import json

from drawing import COMPUTE, COPY, UPDATE, Figure, read

SETTING = ("4", "8", "8, equal stages")  # stages, micro-batches
LEFT, RIGHT, TOP, ROW, BLOCK = 86, 810, 40, 28, 158  # pixels


def works(run, names):
    """What each stage computes: (begin and end in ms, micro-batch, colour, whether it is solid)."""
    for spans in run["lists"]:
        found = []
        for _, name, begin, length in spans["spans"]:
            scope, kind = names[name]
            if length > 100:  # the loss is too short to be seen
                part = scope.split()[1] if kind in ("forward", "backward") else ""
                colour = {"forward": COPY, "backward": COMPUTE, "update": UPDATE}[kind]
                found.append((begin / 1e4, (begin + length) / 1e4, part, colour, kind != "forward"))
        yield found


def draw():
    data = json.loads(read("docs/site/timelines/08_pipeline.json"))
    runs = [run for run in data["runs"] if (*run["setting"][:2], run["setting"][3]) == SETTING]
    titles = [f"{run['setting'][2]}: {run['step']:.1f} ms, idle {100 * run['idle'][0]:.0f} %" for run in runs]
    scale, bottom = (RIGHT - LEFT) / max(run["step"] for run in runs), TOP + len(runs) * BLOCK
    f = Figure("A training step of a pipeline with two schedules, modelled H100",
               "Four stages and eight micro-batches. " + "; ".join(titles) + ".", bottom + 30, 820)
    for i, (title, run) in enumerate(zip(titles, runs)):
        f.text(10, TOP + i * BLOCK - 18, title, 20, "start", bold=True)
        for stage, found in enumerate(works(run, data["names"])):
            f.lane(LEFT, TOP + i * BLOCK + stage * ROW, ROW - 4, scale, f"stage {stage}", run["step"], found)
    f.legend(LEFT, bottom - 6, (("forward of a micro-batch", COPY, False), ("backward", COMPUTE), ("update", UPDATE)))
    return f
