"""The losses of runs that must agree. losses.txt and losses-sharded.txt hold what the commands below the figures in
docs/slides/2-data-parallel.md and 4-large-models.md print: the training step, and the loss of each run."""
from drawing import COMMUNICATE, COMPUTE, FOURTH, UPDATE, Axes, Figure

LEFT, RIGHT, TOP, BOTTOM = 80, 780, 52, 280
LOOKS = ((COMPUTE, 12), (COMMUNICATE, 9), (UPDATE, 6), (FOURTH, 3))  # each run has smaller discs than the one below it


def rows_of(text):
    return [[float(value) for value in line.split(",")] for line in text.splitlines()]


def curves(title, text, names):
    """A curve for each run, which shows one only where the others leave it."""
    rows = rows_of(text)
    most = max(max(row[1:]) for row in rows)
    top = int(most) + 1
    f = Figure(title, f"Losses of {len(rows)} training steps. " + " ".join(
        f"{name}: {rows[0][run]:.4f} in step {rows[0][0]:.0f}, {rows[-1][run]:.4f} in step {rows[-1][0]:.0f}."
        for run, name in enumerate(names, 1)), BOTTOM + 70)

    steps = rows[-1][0]
    axes = Axes(f, LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, [round(steps * i / 4) for i in range(5)], top, 1, ("training step", "loss"),
                lambda step: LEFT + (RIGHT - LEFT) * step / steps)
    for run, (name, (colour, radius)) in enumerate(zip(names, LOOKS), 1):
        for row in rows:
            f.disc(axes.x(row[0]), axes.y(row[run]), radius, colour)
        f.disc(RIGHT + 50, TOP - 20 + 64 * run, radius, colour)
        f.text(RIGHT + 72, TOP - 20 + 64 * run, f"{name}\nlast loss {rows[-1][run]:.6f}", 18, "start")
    return f


def draw(text):
    return curves("The losses of one GPU and of three ranks", text, ("one GPU", "three ranks"))


pictures = {"sharded": lambda text: curves("The losses of step 1 and of step 5", text,
                                           ("step 1", "step 5, 1 rank", "step 5, 2 ranks", "step 5, 4 ranks"))}
