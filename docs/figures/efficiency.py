"""Efficiency against GPUs, for weak and strong scaling. These commands write build/rehearse/rehearse.csv, which lies here as
efficiency-weak.csv and efficiency-strong.csv:

make rehearse ARGS="--hidden 8192,8192 --strategies none,full"
make rehearse ARGS="--hidden 8192,8192 --strategies none,full --strong --batch 4096"
"""
import csv

from drawing import COMMUNICATE, COMPUTE, HOST, Axes, Figure, read

SCALINGS = (("weak", COMPUTE, "256 images per GPU"), ("strong", COMMUNICATE, "4,096 images on all GPUs"))
MARKS = {("weak", "none"): "circle", ("weak", "full"): "diamond", ("strong", "none"): "square", ("strong", "full"): "triangle"}


def curves_of(scaling):
    """Returns for each strategy the pairs (GPUs, efficiency in per cent)."""
    curves = {}
    for row in csv.DictReader(read(f"docs/figures/efficiency-{scaling}.csv").splitlines()):
        curves.setdefault(row["strategy"], []).append((int(row["gpus"]), float(row["efficiency"])))
    return curves


def draw():
    curves = {(scaling, strategy): values for scaling, _, _ in SCALINGS for strategy, values in curves_of(scaling).items()}
    gpus = [n for n, _ in next(iter(curves.values()))]
    f = Figure("Efficiency of weak and strong scaling, modelled",
               "Modelled H100, 8 per node, an MLP of 74 million parameters. Efficiency is the speed per GPU, compared "
               f"with one GPU. On {gpus[-1]} GPUs: " +
               ", ".join(f"{scaling} scaling with --strategy {strategy} {values[-1][1]:.0f} %"
                                                for (scaling, strategy), values in curves.items()) + ".")
    axes = Axes(f, 84, 62, 780, 388, gpus, 100, 20, ("GPUs, 8 per node", "efficiency in %"))
    f.text(1100, 28, "modelled H100, MLP of 74 million parameters", 18, "end")
    f.line((axes.x(1), axes.y(100)), (axes.x(gpus[-1]), axes.y(100)), colour=HOST, thick=2.5, dashed=True)
    label = 0  # where the one above is
    for scaling, colour, batch in SCALINGS:
        for strategy in ("none", "full"):
            values = curves[scaling, strategy]
            axes.curve(values, colour, MARKS[scaling, strategy], dashed=strategy == "full")
            label = max(label + 26, axes.y(values[-1][1]))
            f.text(878, label, f"{scaling}, {strategy}: {values[-1][1]:.0f} %", 20, "start", bold=True)
    f.text(axes.x(16) + 20, axes.y(74), "weak: " + SCALINGS[0][2], 20, "start")
    f.text(axes.x(1) - 30, axes.y(12), "strong: " + SCALINGS[1][2], 20, "start")
    return f
