"""What make demo-fsdp prints in docs/language-models.md, as bars: the memory that a rank needs, and tokens per second."""
import re

from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, Figure, read

ROW = re.compile(r"^((?:\d+ layers|the same).*?) +(yes|no) +([\d.]+) +[\d.]+ +\d+ +(\d+) +([PGOWA]+\|?[PGOWA]*)", re.MULTILINE)
PARTS = {"P": ("parameters", COMPUTE), "G": ("gradients", COMMUNICATE), "O": ("optimizer", UPDATE), "W": ("gathered", FOURTH),
         "A": ("activations", COPY)}
LEFT, TOP, PITCH, HEIGHT, SCALE = 470, 56, 45, 34, 13


def draw():
    text = read("docs/language-models.md")
    most = int(re.search(r"each with (\d+) MB", text)[1]) / 1000
    rows = [(name, fits, float(gb), int(rate), letters.replace("|", "")) for name, fits, gb, rate, letters in ROW.findall(text)]
    f = Figure("Memory of a rank with each option", f"Eight modelled H100 of which {most:.1f} GB can be used. " + " ".join(
        f"{name}: {gb} GB{', which does not fit' if fits == 'no' else f', {rate:,} tokens per second'}."
        for name, fits, gb, rate, _ in rows), TOP + PITCH * len(rows) + 36)
    f.legend(LEFT - 220, 22, PARTS.values())
    end = LEFT + most * SCALE
    f.line((end, TOP - 14), (end, TOP + PITCH * len(rows)), colour=HOST, thick=3, dashed=True)
    f.text(end, TOP + PITCH * len(rows) + 18, f"the limit: {most:.1f} GB", 20)
    for i, (name, fits, gb, rate, letters) in enumerate(rows):
        y = TOP + i * PITCH
        scale = gb / len(letters)  # the letters are rounded to GB
        f.bar(LEFT, y, HEIGHT, SCALE, [(letters.count(letter) * scale, colour) for letter, (_, colour) in PARTS.items()], f"{gb}", name=name)
        f.text(1100, y + HEIGHT / 2, f"{rate:,} tokens/s" if fits == "yes" else "does not fit", 20, "end")
    return f
