"""The fastest layouts of a model with 8 billion parameters on 64 to 8,192 GPUs, as tools/on_paper.py computes them."""
from drawing import COMMUNICATE, COMPUTE, HOST, Figure
from formulas import gpus
from on_paper import MODELS, best

COUNTS, SEQUENCE, BATCH = (64, 256, 1024, 2048, 4096, 8192), 4096, 1024
LEFT, TOP, ROW, BAR, WIDTH = 110, 74, 66, 44, 640


def draw():
    rows = [(n, *best(MODELS["8B"], n, SEQUENCE, BATCH, gpus()["h100"])) for n in COUNTS]
    f = Figure("Where the time of a training step goes, by the number of GPUs",
               f"A model of 8 billion parameters, on paper, with {BATCH:,} sequences in each training step. Of a step, GPUs compute "
               + ", ".join(f"on {n:,} GPUs ({layout.name()}) {100 * (guess.computing + guess.update) / guess.step():.0f} %"
                           for n, layout, guess in rows) + ".", height=490)
    f.legend(LEFT, 28, (("computing", COMPUTE), ("only sending", COMMUNICATE), ("bubble", HOST)))
    f.text(LEFT + WIDTH + 20, 28, "fastest layout, on paper", 18, "start", bold=True)
    f.text(LEFT - 14, 58, "GPUs", 18, "end", bold=True)
    for i, (n, layout, guess) in enumerate(rows):
        y = TOP + i * ROW
        f.text(LEFT - 14, y + BAR / 2, f"{n:,}", 20, "end")
        shares = [(seconds / guess.step(), colour) for seconds, colour in (
            (guess.computing + guess.update, COMPUTE), (guess.tensor + guess.context + guess.data, COMMUNICATE),
            (guess.bubble, HOST))]
        f.bar(LEFT, y, BAR, WIDTH, [(share, colour, f"{100 * share:.0f} %") for share, colour in shares])
        f.text(LEFT + WIDTH + 20, y + BAR / 2, layout.name(), 20, "start")
    return f
