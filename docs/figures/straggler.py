"""A training step of four ranks on modelled H100, one of which is slow: a timeline that tools/author/timelines.py records for the
web site."""
import json

from drawing import COMMUNICATE, COMPUTE, COPY, HOST, UPDATE, Colour, Figure, read

SETTING = ["4", "1", "4096", "last GPU: 1.5 times as long"]  # GPUs, overlap, width, slow device
LEFT, RIGHT, TOP, ROW = 100, 1100, 44, 60
LATE = Colour("#F3D9A4", "#F3D9A4")
KINDS = {"forward": COPY, "backward": COMPUTE, "collective": COMMUNICATE, "update": UPDATE}
MS = 1e4  # units of a timeline


def draw():
    data = json.loads(read("docs/site/timelines/02_multigpu_fork.json"))
    run = next(run for run in data["runs"] if run["setting"] == SETTING)
    ranks = sorted((rank, shared["spans"]) for shared in run["lists"] for rank in shared["ranks"])
    scale = (RIGHT - LEFT) / run["step"]
    waits = sum(late[0] for stream, _, _, _, *late in ranks[0][1] if stream == 2 and len(late) == 2 and late[1] == 3) / MS
    f = Figure("A training step of four ranks with a straggler", "Modelled H100. Ranks 0, 1 and 2 begin their sums early and wait for rank 3, "
               f"which computes one and a half times as long: {waits:.2f} ms in this step. Then all ranks sum at the same time.",
               TOP + 4 * ROW + 50)
    f.legend(LEFT, 20, [("forward", COPY), ("backward", COMPUTE), ("sum", COMMUNICATE), ("waits for rank 3", LATE), ("update", UPDATE)])
    for rank, spans in ranks:
        y = TOP + ROW * rank
        f.text(10, y + 25, f"rank {rank}", 20, "start", bold=True)
        f.area(LEFT, y, RIGHT - LEFT, 52, HOST.pale)
        for stream, name, begin, length, *late in spans:
            kind = data["names"][name][1]
            if kind in KINDS:
                x, width = LEFT + begin / MS * scale, length / MS * scale
                f.area(x, y + 26 * (stream - 1), width, 26, KINDS[kind].line)
                if kind == "collective" and late:
                    f.area(x, y + 26, late[0] / MS * scale, 26, LATE.line)
    y = TOP + 4 * ROW
    f.line((LEFT, y), (RIGHT, y), colour=HOST)
    for ms in (0, 0.5, 1, 1.5, 2):
        f.text(LEFT + ms * scale, y + 20, f"{ms:g} ms" if ms else "0", 18)
    f.text(RIGHT, y + 20, "modelled", 18, "end")
    return f
