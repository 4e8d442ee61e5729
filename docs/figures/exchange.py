"""Two neighbours of a pipeline that both send (08_pipeline/pipeline.c, exchange): who waits for whom."""
from drawing import COMMUNICATE, HOST, UPDATE, Figure


def draw():
    f = Figure("Two calls wait for each other, and one group does not", "Left: each of two stages calls ncclSend first, which waits for "
               "ncclRecv of the other one. Neither comes to its ncclRecv, so both wait forever. Right: in one group, both messages run at "
               "the same time.", 330)
    for left, title, grouped in ((10, "two calls", False), (590, "one group", True)):
        f.text(left + 255, 18, title, 22, bold=True)
        for stage, x in enumerate((left, left + 320)):
            f.text(x + 95, 56, f"stage {stage}", 20, bold=True)
            if grouped:
                f.area(x, 80, 190, 190, UPDATE.pale, UPDATE.line, corner=8)
            f.box(x + 10, 92, 170, 72, "ncclSend:\n" + ("gradients" if stage else "outputs"), UPDATE if grouped else COMMUNICATE, solid=True, size=18)
            f.box(x + 10, 186, 170, 72, "ncclRecv", UPDATE if grouped else HOST, solid=grouped, dashed=not grouped, size=18)
        for (a, b) in ((left + 190, left + 320), (left + 320, left + 190)):
            f.arrow((a, 128), (b, 222), colour=UPDATE if grouped else COMMUNICATE, thick=3, dashed=not grouped)
        f.text(left + 255, 300, "both messages run together" if grouped else "each waits for a receive that never comes", 20, bold=True)
    return f
