"""The phases of a training step of the small model with batch 1,024 on 1, 2, 4 and 8 modelled H100. phases.txt holds what
--profile prints; its commands stand below the figure in docs/slides/1-one-gpu.md."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Figure

PHASES = (("forward", COPY), ("backward", COMPUTE), ("update", UPDATE), ("comm", COMMUNICATE))
LEFT, WIDTH, PITCH, HEIGHT = 210, 730, 62, 46  # of the bars


def profiles_of(table):
    """For each run: the milliseconds of each phase, by its name. The head of a profile ends in the names of its columns."""
    with open(table, encoding="utf-8") as file:
        lines = file.read().splitlines()
    return [{name: float(ms) for name, ms in zip(head.split("timed")[1].split(), row.split("ms")[1].split())}
            for head, row in zip(lines[::2], lines[1::2])]


def bars(title, labels, table):
    """A row for each run: its phases, and the rest of the step in grey."""
    profiles = profiles_of(table)
    longest = max(profile["step"] for profile in profiles)
    f = Figure(title, "Modelled H100, milliseconds. " + " ".join(
        f"{label}: " + ", ".join(f"{name} {profile.get(name, 0):.3f}" for name in [*dict(PHASES), "step"]) + "."
        for label, profile in zip(labels, profiles)), PITCH * len(profiles) + 52)
    for row, (label, profile) in enumerate(zip(labels, profiles)):
        y, x = 8 + PITCH * row, LEFT
        f.text(LEFT - 16, y + HEIGHT / 2, label, 22, "end")
        f.area(LEFT, y, WIDTH * profile["step"] / longest, HEIGHT, HOST.line)
        for name, colour in PHASES:
            width = WIDTH * profile.get(name, 0) / longest
            if width:
                f.area(x, y, width - 1, HEIGHT, colour.line)
            if width > 70:
                f.text(x + width / 2, y + HEIGHT / 2, f"{profile[name]:.3f}", 20, colour=colour.letters)
            x += width
        f.text(LEFT + WIDTH + 16, y + HEIGHT / 2, f"{profile['step']:.3f} ms", 22, "start", bold=True)
    y = 8 + PITCH * len(profiles)
    for x, name, colour in ((LEFT, "forward", COPY), (LEFT + 120, "backward", COMPUTE), (LEFT + 256, "update", UPDATE),
                            (LEFT + 370, "communication that nothing hides", COMMUNICATE), (LEFT + 700, "other", HOST)):
        f.area(x, y + 10, 18, 18, colour.line)
        f.text(x + 28, y + 19, name, 18, "start")
    return f


def draw(table):
    return bars("A training step of the small model on more GPUs", ["1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"], table)
