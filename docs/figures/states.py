"""The state machine of the launcher. The upper part shows the rows of the table transitions in
03_multigpu_launcher/states.c, except those of ANY state: another row without a place here stops this program, and so does
a place without a row. The lower part shows decide."""
import os
import re

from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure

TABLE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../03_multigpu_launcher/states.c")
WIDTH, HEIGHT = 190, 70
BOXES = {"IDLE": (20, 52, HOST), "RUNNING": (455, 52, COMPUTE), "DONE": (910, 52, UPDATE),
         "STOPPING": (455, 292, COMMUNICATE), "FAILED": (910, 292, COMMUNICATE)}
# The points of each arrow, and the place and the anchor of its text.
ARROWS = {("IDLE", "RUNNING"): ([(210, 87), (455, 87)], (332, 69, "middle")),
          ("RUNNING", "DONE"): ([(645, 73), (910, 73)], (777, 55, "middle")),
          ("DONE", "RUNNING"): ([(910, 103), (645, 103)], (777, 121, "middle")),
          ("RUNNING", "STOPPING"): ([(550, 122), (550, 292)], (536, 207, "end")),
          ("STOPPING", "FAILED"): ([(645, 335), (910, 335)], (777, 353, "middle")),
          ("FAILED", "RUNNING"): ([(910, 300), (645, 122)], (742, 215, "end")),
          ("DONE", "FAILED"): ([(1005, 122), (1005, 292)], (991, 207, "end"))}
ORDERS = {"STOP": (20, 490), "START": (455, 490), "END": (910, 490)}


def draw():
    with open(TABLE, encoding="ascii") as file:
        rows = re.findall(r"^    \{(\w+), (\w+), (\w+), (\w+)\},", file.read(), re.M)
    rows = [row for row in rows if row[0] != "ANY"]
    events, actions = {}, {}
    for before, event, after, action in rows:
        events.setdefault((before, after), []).append(event)
        if action != "NULL":
            actions[after] = action
    if events.keys() != ARROWS.keys():
        raise SystemExit(f"error: {__file__}: draw other arrows: {sorted(events.keys() ^ ARROWS.keys())}")
    f = Figure("The states of the launcher",
               " ".join(f"{before} becomes {after} by {' or '.join(names)}." for (before, after), names in events.items())
               + " Any state becomes GONE by LAUNCHER_ENDS. Node 0 orders START when no rank runs, STOP when a node has failed or"
               " is lost, and END when all nodes are DONE or no restart remains.", 620)
    f.text(20, 24, "The ranks of a node", 22, "start", bold=True)
    for state, (x, y, colour) in BOXES.items():
        f.box(x, y, WIDTH, HEIGHT, colour=colour)
        f.text(x + WIDTH / 2, y + HEIGHT / 2 - (14 if state in actions else 0), state, 20, bold=True)
        if state in actions:
            f.text(x + WIDTH / 2, y + HEIGHT / 2 + 16, actions[state], 18, code=True)
    for change, (points, (x, y, anchor)) in ARROWS.items():
        f.arrow(*points)
        f.text(x, y, "\n".join(events[change]), 18, anchor)
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
