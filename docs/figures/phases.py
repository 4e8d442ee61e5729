"""The phases of a training step of the small model with batch 1,024 on 1, 2, 4 and 8 modelled H100. phases.txt holds what
--profile prints; its commands stand below the figure in docs/slides/1-one-gpu.md."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, bars

PARTS = (("forward", COPY), ("backward", COMPUTE), ("update", UPDATE), ("communication that nothing hides", COMMUNICATE), ("other", HOST))


def step_bars(title, about, rows, left=210, width=730, digits=3):
    """A bar for each run: the phases of its step. rows: (name, milliseconds of each phase and of the step)."""
    shown = []
    for name, ms in rows:
        parts = [ms.get(phase, 0) for phase in ("forward", "backward", "update", "comm")]
        parts.append(max(ms["step"] - sum(parts), 0))
        shown.append((name, [(part, colour, f"{part:.{digits}f}") for part, (_, colour) in zip(parts, PARTS)], f"{ms['step']:.{digits}f} ms"))
    return bars(title, about + " In milliseconds.", shown, left, width, PARTS, 56)


def of_profiles(title, names, text):
    """The bars of what --profile prints. The head of a profile ends in the names of its columns."""
    lines = text.splitlines()
    profiles = [{phase: float(ms) for phase, ms in zip(head.split("timed")[1].split(), row.split("ms")[1].split())}
                for head, row in zip(lines[::2], lines[1::2])]
    return step_bars(title, "Modelled H100.", zip(names, profiles))


def draw(text):
    return of_profiles("A training step of the small model on more GPUs", ["1 GPU", "2 GPUs", "4 GPUs", "8 GPUs"], text)
