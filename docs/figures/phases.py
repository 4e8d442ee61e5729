"""The phases of a training step on modelled H100. phases.txt and the other tables hold what --profile prints; their commands stand
below the figures in docs/slides/1-one-gpu.md and 2-data-parallel.md."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, bars
from vote import estimate

PARTS = (("forward", COPY), ("backward", COMPUTE), ("update", UPDATE), ("communication that nothing hides", COMMUNICATE), ("other", HOST))


def step_bars(title, about, rows, left=210, width=730, digits=3):
    """A bar for each run: the phases of its step. rows: (name, milliseconds of each phase and of the step)."""
    shown = []
    for name, ms in rows:
        parts = [ms.get(phase, 0) for phase in ("forward", "backward", "update", "comm")]
        parts.append(max(ms["step"] - sum(parts), 0))
        shown.append((name, [(part, colour, f"{part:.{digits}f}") for part, (_, colour) in zip(parts, PARTS)], f"{ms['step']:.{digits}f} ms"))
    return bars(title, about + " In milliseconds.", shown, left, width, PARTS, 56)


def profiles(text):
    """The milliseconds of each phase. The head of a profile ends in the names of its columns."""
    lines = text.splitlines()
    return [{phase: float(ms) for phase, ms in zip(head.split("timed")[1].split(), row.split("ms")[1].split())}
            for head, row in zip(lines[::2], lines[1::2])]


def of_profiles(title, *names):
    """Draws what --profile prints for each of the names."""
    return lambda text: step_bars(title, "Modelled H100.", zip(names, profiles(text)))


def beside_estimate(text):
    """The profile below the estimate on paper (vote.py)."""
    paper = dict(zip(("forward", "backward", "update"), (us / 1000 for us in estimate())))
    paper["step"] = sum(paper.values())
    return step_bars("A training step of the default model", "Modelled H100.", [("on paper", paper), ("profile", *profiles(text))])


draw = of_profiles("A training step of the small model on more GPUs", "1 GPU", "2 GPUs", "4 GPUs", "8 GPUs")
pictures = {"one": beside_estimate,
            "overlap": of_profiles("A training step without and with overlap", "--overlap 0", "--overlap 1")}
