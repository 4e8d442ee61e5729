"""The losses of one GPU and of three ranks. losses.txt holds what the commands below the figure in docs/slides/2-data-parallel.md
print: the training step, and the loss of each run."""
import os

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, UPDATE, Figure

TABLE = os.path.splitext(os.path.abspath(__file__))[0] + ".txt"
LEFT, RIGHT, TOP, BOTTOM = 80, 780, 40, 280
LOOKS = ((COMPUTE, 12), (COMMUNICATE, 9), (UPDATE, 6), (FOURTH, 3))  # each run has smaller discs than the one below it


def rows_of(table):
    with open(table, encoding="ascii") as file:
        return [[float(value) for value in line.split(",")] for line in file]


def curves(title, table, names):
    """A curve for each run, which shows one only where the others leave it."""
    rows = rows_of(table)
    most = max(max(row[1:]) for row in rows)
    top = int(most) + 1
    f = Figure(title, f"Losses of {len(rows)} training steps. " + " ".join(
        f"{name}: {rows[0][run]:.4f} in step {rows[0][0]:.0f}, {rows[-1][run]:.4f} in step {rows[-1][0]:.0f}."
        for run, name in enumerate(names, 1)), BOTTOM + 70)

    def place(step, loss):
        return LEFT + (RIGHT - LEFT) * step / rows[-1][0], BOTTOM - (BOTTOM - TOP) * loss / top
    for loss in range(top + 1):
        f.line((LEFT, place(0, loss)[1]), (RIGHT, place(0, loss)[1]), colour=HOST, thick=1 if loss else 2)
        f.text(LEFT - 14, place(0, loss)[1], str(loss), 18, "end")
    for i in range(5):
        f.text(place(rows[-1][0] * i / 4, 0)[0], BOTTOM + 20, f"{rows[-1][0] * i / 4:.0f}", 18)
    f.text((LEFT + RIGHT) / 2, BOTTOM + 48, "training step", 20)
    f.text(10, 14, "loss", 20, "start")
    for run, (name, (colour, radius)) in enumerate(zip(names, LOOKS), 1):
        for row in rows:
            f.disc(*place(row[0], row[run]), radius, colour)
        f.disc(RIGHT + 50, TOP - 20 + 64 * run, radius, colour)
        f.text(RIGHT + 72, TOP - 20 + 64 * run, f"{name}\nlast loss {rows[-1][run]:.6f}", 18, "start")
    return f


def draw(table=TABLE):
    return curves("The losses of one GPU and of three ranks", table, ("one GPU", "three ranks"))
