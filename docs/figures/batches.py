"""Images per second of step 1 for batches of different sizes, computed from the rates of the modelled H100."""
from drawing import COMPUTE, HOST, Axes, Figure
from formulas import mlp_flops
from launches import GPU, WIDTHS, kernels

BATCHES = tuple(2 ** i for i in range(3, 14))


def rate(batch):
    """Millions of images per second: the host or the GPU is the limit."""
    found = kernels(batch)
    return batch / max(sum(seconds for _, seconds, _ in found), sum(call for _, _, call in found)) / 1e6


def draw():
    most = GPU["fp32"] / mlp_flops(1, *WIDTHS) / 1e6
    f = Figure("Images per second for batches of different sizes",
               f"The default model on a modelled H100. The arithmetic alone would allow {most:.1f} million images per second. "
               + " ".join(f"Batch {b:,}: {rate(b):.1f} million." for b in BATCHES))
    axes = Axes(f, 84, 62, 1010, 388, BATCHES, 20, 5, ("batch: images in a training step", "millions of images per second, computed for the modelled H100"))
    f.line((84, axes.y(most)), (1094, axes.y(most)), colour=HOST, thick=2.5, dashed=True)
    f.text(100, axes.y(most) - 18, f"the arithmetic alone: {most:.1f}", 20, "start")
    axes.curve([(b, rate(b)) for b in BATCHES], COMPUTE, "circle")
    for b in (128, 1024, 4096):
        f.text(axes.x(b) - 14, axes.y(rate(b)) - 16, f"{rate(b):.1f}", 20, "end", bold=True)
    return f
