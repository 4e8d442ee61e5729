"""The fastest layouts of a model with 8 billion parameters on 64 to 8,192 GPUs, as tools/on_paper.py computes them."""
from drawing import COMMUNICATE, COMPUTE, HOST, bars
from formulas import gpus
from on_paper import MODELS, best

COUNTS, SEQUENCE, BATCH = (64, 256, 1024, 2048, 4096, 8192), 4096, 1024


def draw():
    rows = []
    for n in COUNTS:
        layout, guess = best(MODELS["8B"], n, SEQUENCE, BATCH, gpus()["h100"])
        shares = [100 * seconds / guess.step() for seconds in (
            guess.computing + guess.update, guess.tensor + guess.context + guess.data, guess.bubble)]
        rows.append((f"{n:,}", [(share, colour, f"{share:.0f} %") for share, colour in zip(shares, (COMPUTE, COMMUNICATE, HOST))],
                     layout.name()))
    f = bars("Where the time of a training step goes, by the number of GPUs",
             f"A model of 8 billion parameters, on paper, with {BATCH:,} sequences in each training step, in percent.", rows, 110, 640,
             (("computing", COMPUTE), ("only sending", COMMUNICATE), ("bubble", HOST)), 74, 66, 44)
    f.text(770, 28, "fastest layout, on paper", 18, "start", bold=True)
    f.text(96, 58, "GPUs", 18, "end", bold=True)
    return f
