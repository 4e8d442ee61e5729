"""What two ranks did when rank 1 froze, measured on the CPU device. watchdog-time.txt holds what the commands below the figure in
docs/slides/3-many-nodes.md print."""
import os
import runpy

from drawing import COMMUNICATE, COMPUTE, HOST, ROOT, Figure

COMMON = runpy.run_path(os.path.join(ROOT, "docs/figures/restart-time.py"))


def draw(text):
    (start, _), (train, _), (frozen, _), (noticed, _), _, (killed, _) = COMMON["events_of"](text)
    f = Figure("A rank freezes, and the watchdog of the other one notices", f"Measured. Rank 1 freezes after {frozen:.1f} s. Rank 0 waits "
               f"in a sum, until its watchdog ends it after {noticed:.1f} s. Then the launcher ends rank 1.", 310)
    x = COMMON["timeline"](f, killed, 240)
    COMMON["work"](f, x, 70, "rank 0", [(start, train, HOST, "start"), (train, frozen, COMPUTE, "train"),
                                        (frozen, noticed, COMMUNICATE, "waits in a sum")])
    COMMON["work"](f, x, 150, "rank 1", [(start, train, HOST, "start"), (train, frozen, COMPUTE, "train"),
                                         (frozen, killed, HOST, "frozen: no error, no end")])
    f.text(x(frozen), 48, "rank 1 freezes", 18)
    f.text(x(noticed), 24, f"the watchdog of rank 0 notices: {noticed - frozen:.1f} s", 20, "end", bold=True)
    f.text(1090, 296, "seconds, measured", 18, "end")
    return f
