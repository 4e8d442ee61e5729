"""What interrupted the training of Llama 3 405B: The Llama 3 Herd of Models (arXiv 2407.21783), table 5 in section 3.3.4."""
from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure

ALL, CAUSES = 419, [("faulty GPU", 148, COMPUTE), ("memory of a GPU", 72, COPY), ("network switch or cable", 35, COMMUNICATE)]
LEFT, SCALE = 320, 4.1  # of the bars; pixels per interruption


def draw():
    rows = CAUSES + [("other causes", ALL - sum(count for _, count, _ in CAUSES), HOST)]
    f = Figure("Causes of unexpected interruptions of Llama 3 405B", f"{ALL} interruptions in 54 days on 16,384 GPUs: " +
               ", ".join(f"{name} {count}" for name, count, _ in rows) + ".", 300)
    for i, (name, count, colour) in enumerate(rows):
        y = 12 + 70 * i
        f.text(LEFT - 18, y + 25, name, 24, "end")
        f.box(LEFT, y, count * SCALE, 50, colour=colour, solid=True)
        f.text(LEFT + count * SCALE + 14, y + 25, f"{count}", 24, "start", bold=True)
    return f
