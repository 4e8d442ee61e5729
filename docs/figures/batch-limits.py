"""The two limits of a batch: tokens per GPU from which communication hides, and the noise of the gradient."""
from drawing import COMMUNICATE, COMPUTE, HOST, Axes, Figure
from formulas import gpus, samples_factor, steps_factor, tokens_to_hide

H100, SENT = gpus()["h100"], 8  # bytes for each parameter: two gathers in bfloat16, and a sum in fp32
BATCHES = {"B/8": 1 / 8, "B/4": 1 / 4, "B/2": 1 / 2, "B": 1, "2B": 2, "4B": 4, "8B": 8}


def draw():
    tokens = [(name, tokens_to_hide(SENT, H100["bf16"], H100[link])) for name, link in
              (("NVLink\nin a node", "link"), ("one network\ncard", "network"))]
    f = Figure("The two limits of a batch", "On a modelled H100, " + " and ".join(
        f"{count:,.0f} tokens per GPU hide the messages over {name.replace(chr(10), ' ')}" for name, count in tokens) +
        ". With a batch of the noise scale B, training needs twice the fewest steps and twice the fewest samples.", 440)
    f.text(20, 26, "tokens per GPU, so that sending hides", 20, "start", bold=True)
    for i, (name, count) in enumerate(tokens):
        y = 70 + 110 * i
        f.text(140, y + 30, name, 20, "end")
        f.bar(154, y, 60, 0.0125, [(count, COMMUNICATE)], f"{count:,.0f}")
    f.text(20, 330, "6 FLOPs per parameter and token\nmust take longer than\nsending 8 bytes per parameter", 20, "start")
    axes = Axes(f, 610, 92, 480, 268, list(BATCHES), 10, 2, ("batch; B: gradient noise scale", "times the fewest possible"))
    for factor, colour, mark, text, at, dx, low in ((steps_factor, COMPUTE, "circle", "steps", "B/4", 16, "4B"),
                                                    (samples_factor, HOST, "square", "samples", "4B", -16, "B/4")):
        axes.curve([(name, factor(batch, 1)) for name, batch in BATCHES.items()], colour, mark)
        value = factor(BATCHES[at], 1)
        f.text(axes.x(at) + dx, axes.y(value) - 18, f"{text} x {value:g}", 20, "start" if dx > 0 else "end", bold=True)
        f.text(axes.x(low), axes.y(factor(BATCHES[low], 1)) + 18, f"{factor(BATCHES[low], 1):g}", 20)
    return f
