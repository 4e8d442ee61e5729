"""The steps of the course, for README.md."""
from drawing import COMMUNICATE, COMPUTE, HOST, PLAIN, Figure

CARD, HEIGHT, GAP, TOP = 172, 262, 16, 12
GPU = 30


def gpu(f, x, y, shard=None, shards=4):
    """A GPU; shard: the part of the model that it stores, or None for all of it."""
    part = GPU / shards if shard is not None else GPU
    f.area(x, y, GPU, GPU, COMPUTE.pale, COMPUTE.line)
    f.area(x, y + (shard or 0) * part, GPU, part, COMPUTE.line)


def row(f, x, y, count, sharded=False, shards=4):
    for i in range(count):
        gpu(f, x + i * (GPU + 6), y, i % shards if sharded else None, shards)


def bus(f, x, y, count):
    """The collective below a row of GPUs."""
    f.line((x + GPU / 2, y), (x + GPU / 2 + (count - 1) * (GPU + 6), y), colour=COMMUNICATE, thick=4)
    for i in range(count):
        at = x + GPU / 2 + i * (GPU + 6)
        f.line((at, y - 16), (at, y), colour=COMMUNICATE, thick=4)


def one(f, x, y):
    gpu(f, x + 69, y + 40)


def several(f, x, y):
    row(f, x + 15, y + 28, 4)
    bus(f, x + 15, y + 76, 4)


def launcher(f, x, y):
    f.box(x + 36, y, 96, 30, "launch", PLAIN, size=18)
    for i in range(4):
        at = x + 30 + i * (GPU + 6)
        f.line((x + 84, y + 30), (x + 84, y + 38), (at, y + 38), (at, y + 48), thick=2)
    row(f, x + 15, y + 48, 4)
    bus(f, x + 15, y + 96, 4)


def nodes(f, x, y):
    for node in range(2):
        f.area(x + 6 + node * 80, y + 18, 76, 62, HOST.pale, HOST.line, corner=5)
        row(f, x + 11 + node * 80, y + 34, 2)
    for at in (x + 26, x + 62, x + 106, x + 142):
        f.line((at, y + 64), (at, y + 96), colour=COMMUNICATE, thick=4)
    f.line((x + 26, y + 96), (x + 142, y + 96), colour=COMMUNICATE, thick=4)


def shards(f, x, y):
    row(f, x + 15, y + 28, 4, sharded=True)
    bus(f, x + 15, y + 76, 4)


def large(f, x, y):
    for node in range(2):
        f.area(x + 8, y + node * 52, 152, 44, HOST.pale, HOST.line, corner=5)
        row(f, x + 15, y + 7 + node * 52, 4, sharded=True)
    for i in range(4):  # ranks with the same shard
        f.line((x + 30 + i * (GPU + 6), y + 39), (x + 30 + i * (GPU + 6), y + 57), colour=COMMUNICATE, thick=4)


def ring(f, x, y):
    corners = [(x, y), (x + 44, y), (x + 44, y + 36), (x, y + 36)]
    for (a, b), (c, d) in zip(corners, corners[1:] + corners[:1]):
        dx, dy = (c > a) - (c < a), (d > b) - (d < b)
        f.arrow((a + 11 * dx, b + 11 * dy), (c - 10 * dx, d - 10 * dy), colour=COMMUNICATE, thick=2)
        f.area(a - 9, b - 9, 18, 18, COMPUTE.line)


STEPS = ((1, "One GPU", "A training step,\na snapshot", one), (2, "Several GPUs", "N ranks,\none all-reduce", several),
         (3, "A launcher", "It starts ranks,\nand restarts them", launcher),
         (4, "Many nodes", "Ranks meet; none\nwaits forever", nodes),
         (5, "Sharding", "Each rank stores\n1/N of the model", shards),
         (7, "Large models", "Strategies, bf16,\nrecomputation", large))


def draw():
    f = Figure("The steps of the course",
               "Steps 1 to 5 and 7 follow each other: " +
               "; ".join(f"step {n}, {name}: " + words.replace("\n", " ") for n, name, words, _ in STEPS)
               + ". Step 8, a pipeline, follows step 4, and step 9, tensor parallelism, follows step 8. Step 6, all-reduce by hand, can "
               "be read at any time after step 2.", 400)
    for i, (step, name, words, icon) in enumerate(STEPS):
        x = 4 + i * (CARD + GAP)
        f.box(x, TOP, CARD, HEIGHT)
        f.disc(x + 18, TOP + 28, 14, COMPUTE, str(step), size=18, bold=True)
        f.text(x + 38, TOP + 28, name, 18, "start", bold=True)
        icon(f, x + 2, TOP + 64)
        f.text(x + CARD / 2, TOP + HEIGHT - 42, words, 18)
        if i:
            f.arrow((x - GAP, TOP + HEIGHT / 2), (x, TOP + HEIGHT / 2), thick=2)
    x, y = 4 + CARD + GAP, TOP + HEIGHT + 36
    f.arrow((x + CARD / 2, TOP + HEIGHT), (x + CARD / 2, y), thick=2, dashed=True)
    f.box(x, y, 2 * CARD + GAP + 32, 74)
    f.disc(x + 26, y + 37, 16, COMPUTE, "6", size=20, bold=True)
    f.text(x + 52, y + 37, "All-reduce by hand:\na ring of sends and receives", 18, "start")
    ring(f, x + 2 * CARD + GAP - 34, y + 19)
    x = 4 + 3 * (CARD + GAP) + CARD / 2  # below step 4
    f.arrow((x, TOP + HEIGHT), (x, y + 37), (x + 32, y + 37), thick=2)
    for i, (step, words) in enumerate(((8, "A pipeline: each\nrank has layers"), (9, "Tensor parallel:\nparts of matrices"))):
        left = x + 32 + i * 220
        f.box(left, y, 204, 74)
        f.disc(left + 24, y + 37, 16, COMPUTE, str(step), size=20, bold=True)
        f.text(left + 48, y + 37, words, 18, "start")
    f.arrow((x + 236, y + 37), (x + 252, y + 37), thick=2)
    return f
