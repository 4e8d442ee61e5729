"""How the ranks of step 4 meet, train and end, with their deadlines (04_multinode/meet_by_tcp.c and watchdog.c). The time axis
has no scale."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, PLAIN, Figure, read

RANKS, TOP, PITCH = 4, 70, 84


def limit(option):
    """The default of an option, in seconds."""
    return re.search(rf'"{option}", .*, "(\d+)"', read("04_multinode/meet_by_tcp.c"))[1]


def lane(rank):
    return TOP + rank * PITCH


def draw():
    join, step = limit("join-timeout"), limit("step-timeout")
    f = Figure("Step 4: the ranks meet, train, and never wait for ever",
               "Rank 0 listens. The other ranks connect and say HELLO; a rank that starts earlier tries again until rank "
               f"0 listens. If a rank is missing after {join} s (--join-timeout), all end. When all have come, rank 0 "
               "sends the id. NCCL joins them, again within --join-timeout. Later a node loses power. The collective of the other ranks does not end, and after "
               f"{step} s (--step-timeout) their watchdogs end them with exit code 1.", 490)
    begins = (196, 236, 108, 352)  # when each rank starts
    for rank in range(RANKS):
        y, end = lane(rank), 912 if rank == 3 else 1078
        f.text(12, y, f"rank {rank}", 20, "start", bold=True)
        f.line((begins[rank], y), (end, y), colour=HOST, thick=3)
        f.cross(end, y, 10)
    f.box(begins[0], lane(0) - 20, 200, 40, "listens", PLAIN)
    for i in range(3):
        f.cross(124 + i * 26, lane(2))
    f.text(100, lane(2) + 24, "tries again", 18, "start")
    for rank, x in ((2, 212), (1, 258), (3, 372)):
        f.arrow((x, lane(rank)), (x, lane(0) + 20), colour=COMMUNICATE)
    f.text(266, lane(1) - 26, "HELLO", 18, "start")
    f.text(460, lane(0) - 30, "ID", 18)
    for rank in range(1, RANKS):
        f.arrow((460, lane(0)), (460, lane(rank)), colour=COMMUNICATE)
    bottom = lane(RANKS - 1) + 24
    f.box(574, 46, 96, bottom - 46, "NCCL\nconnects\nall ranks", COMMUNICATE, size=18)
    f.text(790, 20, "training", 20, bold=True)
    for x in (706, 770, 834):
        for rank in range(RANKS):
            f.box(x, lane(rank) - 14, 30, 28, "", COMPUTE)
        f.box(x + 34, 46, 18, bottom - 46, "", COMMUNICATE)
    for rank in range(RANKS - 1):
        f.box(898, lane(rank) - 14, 30, 28, "", COMPUTE)
    f.box(932, 46, 130, bottom - 46 - PITCH, "a collective\nthat does\nnot end", COMMUNICATE, dashed=True, size=18)
    f.text(928, lane(3), "node loses power", 18, "start")
    f.text(1078, lane(0) - 40, "exit 1", 18)
    for left, right, option, seconds in ((196, 396, "--join-timeout", join), (568, 676, "--join-timeout", join),
                                         (932, 1078, "--step-timeout", step)):
        f.brace(left, right, bottom + 26)
        f.text((left + right) / 2, bottom + 66, option, 18, code=True)
        f.text((left + right) / 2, bottom + 94, f"{seconds} s", 22, bold=True)
    return f
