"""What steps 8 and 9 need from earlier steps, for the beginning of their READMEs."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, UPDATE, Figure

PITCH, WIDTH, TOP, HEIGHT = 280, 256, 66, 196


def draw():
    f = Figure("Four things to remember",
               "Ranks form groups, and ranks of different groups with the same parameters are replicas. A stream waits for an event of "
               "another stream. All ranks make the same calls in the same order. A batch is computed in parts, and one update follows.",
               TOP + HEIGHT + 6)
    for i, title in enumerate(("1  groups and replicas", "2  streams and events", "3  the same calls", "4  a batch in parts")):
        f.text(4 + i * PITCH, 22, title, 20, "start", bold=True)
        f.area(i * PITCH + 2, TOP - 18, WIDTH, HEIGHT, HOST.pale, HOST.line, corner=8)
    for group in range(2):  # 1
        f.area(30, TOP + 2 + 84 * group, 200, 66, COMPUTE.pale, COMPUTE.line, corner=8)
        for rank in range(2):
            f.box(40 + 100 * rank, TOP + 12 + 84 * group, 80, 46, f"rank {2 * group + rank}", COMPUTE, solid=True, size=18)
    for rank in range(2):
        f.arrow((80 + 100 * rank, TOP + 58), (80 + 100 * rank, TOP + 96), colour=FOURTH, thick=3, both=True)
    x = PITCH + 20  # 2
    f.box(x, TOP + 12, 110, 46, "compute", COMPUTE, solid=True, size=18)
    f.box(x + 114, TOP + 12, 110, 46, "compute", COMPUTE, solid=True, size=18)
    f.box(x + 114, TOP + 100, 110, 46, "send", COMMUNICATE, solid=True, size=18)
    f.arrow((x + 112, TOP + 60), (x + 130, TOP + 99), thick=3)
    f.text(x + 98, TOP + 80, "event", 18, "end")
    for rank in range(2):  # 3
        x = 2 * PITCH + 24 + 112 * rank
        f.text(x + 48, TOP + 4, f"rank {rank}", 18)
        for call, colour in enumerate((COMMUNICATE, COPY)):
            f.box(x, TOP + 22 + 66 * call, 96, 46, f"call {'AB'[call]}", colour, solid=True, size=18)
        f.arrow((x + 48, TOP + 68), (x + 48, TOP + 88), thick=2)
    x = 3 * PITCH + 20  # 4
    for part in range(4):
        f.box(x + 55 * part, TOP + 12, 50, 46, str(part), COMPUTE, solid=True, size=18)
        f.arrow((x + 25 + 55 * part, TOP + 58), (x + 25 + 55 * part, TOP + 100), colour=UPDATE, thick=2)
    f.box(x, TOP + 100, 215, 46, "sum, then one update", UPDATE, size=18)
    return f
