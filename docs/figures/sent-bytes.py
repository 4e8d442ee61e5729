"""The bytes that the busiest rank and the others send in three all-reduces on four ranks. sent-bytes.txt is the table of step 6;
its commands stand below the figure in docs/slides/2-data-parallel.md."""
from drawing import COMMUNICATE, COMPUTE, HOST, Figure

NAMES = {"gather+bcast": "to rank 0 and back", "ring": "ring", "rs+ag": "reduce-scatter, all-gather"}
LEFT, WIDTH, PITCH, HEIGHT = 390, 500, 92, 34  # of the bars


def draw(text):
    rows = [line.split() for line in text.splitlines() if line.split()[0] in NAMES]
    sent = [(NAMES[row[0]], int(row[3]) / 1e6, int(row[5]) / 1e6) for row in rows]
    most = max(max(pair) for _, *pair in sent)
    f = Figure("Bytes that ranks send in an all-reduce of 4 MB on four ranks", " ".join(
        f"{name}: rank 0 sends {first:.0f} MB, rank 1 sends {second:.0f} MB." for name, first, second in sent), PITCH * len(sent) + 10)
    for i, (name, *pair) in enumerate(sent):
        y = 6 + PITCH * i
        f.text(LEFT - 120, y + HEIGHT, name, 20, "end", bold=True)
        for rank, (megabytes, colour) in enumerate(zip(pair, (COMMUNICATE, COMPUTE))):
            top = y + rank * (HEIGHT + 4)
            f.text(LEFT - 14, top + HEIGHT / 2, f"rank {rank}", 20, "end")
            f.area(LEFT, top, WIDTH, HEIGHT, HOST.pale)
            f.area(LEFT, top, WIDTH * megabytes / most, HEIGHT, colour.line)
            f.text(LEFT + WIDTH + 14, top + HEIGHT / 2, f"{megabytes:.0f} MB sent", 22, "start", bold=True)
    return f
