"""How readers, copies and training steps overlap with 0, 2 and 4 readers. loading.txt holds what the commands below the figure in
docs/slides/1-one-gpu.md print: for each run, a line with spans of its trace."""
import json

from drawing import COMMUNICATE, COMPUTE, COPY, WHITE, Figure

LEFT, ROW, SHOWN, SCALE = 110, 22, 2400, 1000 / 2400  # SHOWN: microseconds


def lanes(line, name):
    """Returns rows (name, works, colour). A work is a begin and an end, and a training step begins with its gather."""
    reads, copies, steps = {}, [], []
    for span in sorted(json.loads(f"[{line.rstrip(',')}]"), key=lambda span: span["ts"]):
        begin, end = span["ts"], min(span["ts"] + span["dur"], SHOWN)
        if span["cat"] == "read":
            reads.setdefault(span["tid"], []).append((begin, end))
        elif span["cat"] == "copy":
            copies.append((begin, end))
        elif span["name"] == "gather_batch":
            steps.append((begin, SHOWN))
        else:
            steps[-1] = steps[-1][0], end
    rows = [(name.format(i + 1), reads[row], COMMUNICATE) for i, row in enumerate(sorted(reads))]
    return rows + [("copies", copies, COPY), ("GPU", steps, COMPUTE)]


def draw(text):
    f, top, about = Figure("Readers, copies and training steps", ""), 18, []
    for workers, line in zip((0, 2, 4), text.splitlines()):
        rows = lanes(line, "reader {}" if workers else "training")
        steps, batches = rows[-1][1], max(workers, 1)  # batches that are read at the same time
        about.append(f"--workers {workers}: {(steps[-1][0] - steps[-1 - batches][0]) / batches / 1000:.3f} ms for a training step")
        f.text(10, top, about[-1], 20, "start", bold=True)
        for name, works, colour in rows:
            top += ROW
            f.lane(LEFT, top - 10, ROW - 4, SCALE, name, SHOWN, [])
            for begin, end in works:
                f.area(LEFT + begin * SCALE, top - 10, (end - begin) * SCALE, ROW - 4, colour.line, WHITE, thick=1)
        top += 29
    f.legend(LEFT, top, (("a batch is read", COMMUNICATE), ("it is copied", COPY), ("a training step", COMPUTE)))
    f.description, f.height = "From traces of a modelled H100. " + "; ".join(about) + ".", top + 14
    return f
