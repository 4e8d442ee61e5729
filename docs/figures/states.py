"""The protocol of the launchers of several nodes. The upper part shows the states of the ranks of a node (enum state in
03_multigpu_launcher/local_ranks.h), the lower one how node 0 gives orders (decide in 04_multinode/launch.c)."""
from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure

WIDTH, HEIGHT = 190, 70
BOXES = {"IDLE": (20, 52, HOST), "RUNNING": (455, 52, COMPUTE), "DONE": (910, 52, UPDATE),
         "STOPPING": (455, 292, COMMUNICATE), "FAILED": (910, 292, COMMUNICATE)}
# What leads from one state to the next. The points of each arrow, and the place and the anchor of its text.
ARROWS = {("IDLE", "RUNNING"): ("START", [(210, 87), (455, 87)], (332, 69, "middle")),
          ("RUNNING", "DONE"): ("all ranks end with 0", [(645, 73), (910, 73)], (777, 55, "middle")),
          ("DONE", "RUNNING"): ("START, because another\nnode has failed", [(910, 103), (645, 103)], (790, 133, "middle")),
          ("RUNNING", "STOPPING"): ("a rank fails,\nor STOP", [(550, 122), (550, 292)], (536, 207, "end")),
          ("STOPPING", "FAILED"): ("all ranks have ended", [(645, 335), (910, 335)], (777, 353, "middle")),
          ("FAILED", "RUNNING"): ("START", [(910, 300), (645, 122)], (742, 225, "end"))}
ORDERS = {"STOP": (20, 490), "START": (455, 490), "END": (910, 490)}


def draw():
    f = Figure("The states of the launcher",
               " ".join(f"{before} becomes {after}: {' '.join(why.split())}." for (before, after), (why, *_) in ARROWS.items())
               + " Node 0 orders START when no rank runs, STOP when a node has failed or is lost, and END when all nodes are"
               " DONE or no restart remains.", 620)
    f.text(20, 24, "The ranks of a node", 22, "start", bold=True)
    for state, (x, y, colour) in BOXES.items():
        f.box(x, y, WIDTH, HEIGHT, colour=colour)
        f.text(x + WIDTH / 2, y + HEIGHT / 2, state, 20, bold=True)
    for why, points, (x, y, anchor) in ARROWS.values():
        f.arrow(*points)
        f.text(x, y, why, 18, anchor)
    f.line((20, 410), (1100, 410), colour=HOST)
    f.text(20, 444, "The order of node 0 to all nodes", 22, "start", bold=True)
    for order, (x, y) in ORDERS.items():
        f.box(x, y, WIDTH, HEIGHT, order, size=20, bold=True)
    f.arrow((210, 511), (455, 511))
    f.text(332, 493, "no rank runs", 18)
    f.arrow((455, 541), (210, 541))
    f.text(332, 570, "a node has failed\nor is lost", 18)
    f.arrow((645, 525), (910, 525))
    f.text(777, 507, "all nodes are DONE", 18)
    f.arrow((115, 560), (115, 600), (1005, 600), (1005, 560))
    f.text(700, 582, "no restart remains", 18)
    return f
