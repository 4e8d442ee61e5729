"""Three plans on paper, as tools/on_paper.py plan computes them: the memory of a GPU, and the run."""
from argparse import Namespace

from drawing import COPY, FOURTH, HOST, UPDATE, Figure
from formulas import gpus
from on_paper import MODELS, best, plan

PLANS = ((8, "1.3B", 256), (64, "8B", 1024), (1024, "70B", 1024))
SEQUENCE, GPU = 4096, "h100"
PARTS = (("states", UPDATE), ("activations", COPY), ("gathered layers", FOURTH))
ROWS = (("layout", "layout"), ("time of a step", "step"), ("whole run", "run"), ("failures in the run", "failures"))
LEFT, TOP, PITCH, HEIGHT, SCALE = 190, 96, 128, 56, 5


def draw():
    rates, options = gpus()[GPU], Namespace(sequence=SEQUENCE, gpu=GPU)
    capacity = rates["capacity"] / 1e9
    rows = [(n, name, best(MODELS[name], n, SEQUENCE, batch, rates)[1], plan(n, name, batch, options, rates))
            for n, name, batch in PLANS]
    f = Figure("Plans for 8, 64 and 1,024 GPUs", "On paper. " + " ".join(
        f"{name} on {n:,} GPUs: {guess.memory() / 1e9:.1f} GB, {p['layout']}, {p['whole run']}, {p['failures in the run']} failures."
        for n, name, guess, p in rows), TOP + PITCH * len(rows) + 16)
    f.legend(LEFT, 24, PARTS)
    end = LEFT + capacity * SCALE
    f.line((end, 66), (end, TOP + PITCH * len(rows) - 40), colour=HOST, thick=3, dashed=True)
    f.text(end, TOP + PITCH * len(rows) - 18, f"an H100 has {capacity:.1f} GB", 20)
    for i, (n, name, guess, p) in enumerate(rows):
        y = TOP + i * PITCH
        sizes = (guess.states / 1e9, guess.activations / 1e9, guess.gathered / 1e9)
        f.bar(LEFT, y, HEIGHT, SCALE, [(size, colour, f"{size:.1f}") for size, (_, colour) in zip(sizes, PARTS)],
              f"{sum(sizes):.1f} GB", name=f"{name}\n{n:,} GPUs")
        f.text(710, y + HEIGHT / 2, "\n".join(f"{text}: {p[row]}" for row, text in ROWS), 20, "start")
    return f
