"""Losses of a run whose learning rate is far too high, with and without clipping. clipping.csv holds what the CPU device
computed for MNIST, from the files of these commands:

for clip in 0.1 0; do 07_large_models/train --data data/mnist --lr 1 --clip $clip --max-steps 20 --log-every 1 --csv clip$clip.csv || true; done
"""
import csv

from drawing import COMMUNICATE, COMPUTE, Axes, Figure, read

TOP = 5  # of the axis


def draw():
    rows = list(csv.DictReader(read("docs/figures/clipping.csv").splitlines()))
    losses = {name: [(int(row["step"]), float(row[name])) for row in rows if row[name]] for name in ("clipped", "unclipped")}
    last, highest = losses["unclipped"][-1]
    f = Figure("Losses with and without clipping", f"Learning rate 1, {len(rows)} training steps. With --clip 0.1, the loss falls from "
               f"{losses['clipped'][0][1]:.2f} to {losses['clipped'][-1][1]:.2f}. Without, it is {highest:.1e} in step {last}, and then "
               "not finite.", height=344)
    axes = Axes(f, 84, 62, 1010, 214, [step for step, _ in losses["clipped"]], TOP, 1, ("training step", "loss"))
    axes.curve(losses["clipped"], COMPUTE, "circle")
    inside = [point for point in losses["unclipped"] if point[1] < TOP]
    axes.curve(inside, COMMUNICATE, "diamond")
    x, y = axes.x(inside[-1][0]), axes.y(inside[-1][1])
    f.arrow((x, y), (x + 16, 44), colour=COMMUNICATE)
    f.text(x + 30, 84, f"--clip 0: {highest:.0e} in step {last}, not finite in step {last + 1}", 20, "start", bold=True)
    f.text(axes.x(10), axes.y(1.7), "--clip 0.1", 20, "start", bold=True)
    return f
