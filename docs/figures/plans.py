"""Three plans on paper, as tools/on_paper.py plan computes them: the memory of a GPU, and the run."""
from argparse import Namespace

from drawing import COPY, FOURTH, UPDATE, bars
from formulas import gpus
from on_paper import MODELS, best, plan
from strategies import LIMIT, of_parts

PLANS = ((8, "1.3B", 256), (64, "8B", 1024), (1024, "70B", 1024))
SEQUENCE, GPU = 4096, "h100"
PARTS = (("states", UPDATE), ("activations", COPY), ("gathered layers", FOURTH))
ROWS = (("layout", "layout"), ("time of a step", "step"), ("whole run", "run"), ("failures in the run", "failures"))
TOP, PITCH, HEIGHT = 96, 128, 56


def draw():
    rates, rows, plans = gpus()[GPU], [], []
    for n, name, batch in PLANS:
        _, guess = best(MODELS[name], n, SEQUENCE, batch, rates)
        rows.append(of_parts(f"{name}\n{n:,} GPUs", [size / 1e9 for size in (guess.states, guess.activations, guess.gathered)], PARTS))
        p = plan(n, name, batch, Namespace(sequence=SEQUENCE, gpu=GPU), rates)
        plans.append("\n".join(f"{text}: {p[row]}" for row, text in ROWS))
    f = bars("Plans for 8, 64 and 1,024 GPUs", "On paper, in GB for each GPU.", rows, 190, 275, PARTS, TOP, PITCH, HEIGHT, LIMIT)
    for i, words in enumerate(plans):
        f.text(710, TOP + i * PITCH + HEIGHT / 2, words, 20, "start")
    f.description += " " + " ".join(" ".join(words.split()) + "." for words in plans)
    return f
