"""The life of a snapshot: the calls of write_whole (common/snapshots/snapshot.c), and which file a crash during each call leaves."""
from drawing import COPY, HOST, PLAIN, UPDATE, Figure

OLD, NEW, EITHER = "old", "new", "old or new"
# Each call, and the snapshot after a crash during it: of the process, and of the machine, which loses its power.
# Last: what may lie beside it, until the next save removes it.
CALLS = (("write\nrun.bin.tmp", OLD, OLD, "a part"), ("fsync\nrun.bin.tmp", OLD, OLD, "yes"),
         ("rename to\nrun.bin", EITHER, EITHER, "maybe"), ("fsync\nthe folder", NEW, EITHER, "maybe"),
         ("saved", NEW, NEW, "no"))
LEFT, PITCH, WIDTH = 184, 187, 164


def draw():
    f = Figure("A snapshot's life and death",
               "A save has four calls: write a temporary file, fsync it, rename it to run.bin, fsync the folder. If the "
               "process ends during the first two, run.bin is the old snapshot; during rename, it is the old or the new "
               "one; later, the new one. If the power fails during fsync of the folder, it is the old or the new one. It "
               "is complete in every case.", 500)
    f.text(12, 66, "call", 20, "start", bold=True)
    f.text(12, 202, "process killed:\nrun.bin is", 20, "start", bold=True)
    f.text(12, 312, "power lost:\nrun.bin is", 20, "start", bold=True)
    f.text(12, 390, "run.bin.tmp?", 20, "start", bold=True)
    for i, (call, killed, dark, beside) in enumerate(CALLS):
        x = LEFT + i * PITCH
        last = i == len(CALLS) - 1
        f.box(x, 24, WIDTH, 84, call, UPDATE if last else PLAIN, bold=True)
        if not last:
            f.arrow((x + WIDTH, 66), (x + PITCH, 66))
        f.line((x + WIDTH / 2, 108), (x + WIDTH / 2, 164), colour=HOST, dashed=True)
        f.line((x + WIDTH / 2, 240), (x + WIDTH / 2, 274), colour=HOST, dashed=True)
        f.text(x + WIDTH / 2, 390, beside, 20)
        for y, state in ((164, killed), (274, dark)):
            if state == EITHER:
                f.area(x, y, WIDTH / 2, 76, HOST.pale, HOST.line)
                f.area(x + WIDTH / 2, y, WIDTH / 2, 76, UPDATE.pale, UPDATE.line)
                f.text(x + WIDTH / 4, y + 38, OLD, 22)
                f.text(x + 3 * WIDTH / 4, y + 38, NEW, 22)
            else:
                f.box(x, y, WIDTH, 76, state, {OLD: HOST, NEW: UPDATE}[state], size=22)
    f.box(LEFT, 426, (len(CALLS) - 1) * PITCH + WIDTH, 58,
          "always a complete file: a restart finds the old or the new snapshot, never a part", COPY)
    return f
