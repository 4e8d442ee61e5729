"""A training step of a pipeline with the schedule 1F1B (one forward, one backward): https://arxiv.org/abs/2104.04473, section
2.2. Backward takes twice as long as forward."""
from drawing import COMPUTE, COPY, HOST, Figure
from formulas import bubble

STAGES, PARTS = 4, 8
LEFT, TOP, ROW, UNIT = 90, 40, 74, 31


def schedule():
    """For each stage, its work as (F or B, micro-batch, begin, end)."""
    ends, rows = {}, [[] for _ in range(STAGES)]
    orders = []
    for stage in range(STAGES):
        warm = min(PARTS, STAGES - stage)
        order = [("F", i) for i in range(warm)]
        for i in range(PARTS):
            order += [("B", i)] + ([("F", i + warm)] if i + warm < PARTS else [])
        orders.append(order)
    while any(orders):
        for stage, order in enumerate(orders):
            if not order:
                continue
            kind, part = order[0]
            after = stage - 1 if kind == "F" else stage + 1  # the stage whose result this one needs
            needed = (kind, part, after) if 0 <= after < STAGES else ("F", part, stage) if kind == "B" else None
            if needed and needed not in ends:
                continue
            begin = max(rows[stage][-1][3] if rows[stage] else 0, ends[needed] if needed else 0)
            ends[kind, part, stage] = begin + (1 if kind == "F" else 2)
            rows[stage].append((*order.pop(0), begin, ends[kind, part, stage]))
    return rows


def draw():
    rows = schedule()
    end = max(row[-1][3] for row in rows)
    f = Figure("A training step of a pipeline of four stages",
               f"{STAGES} stages, each with a quarter of the layers, compute {PARTS} micro-batches. A stage begins when the stage before it "
               f"has sent its outputs. In backward, gradients go the other way. Each stage is idle for "
               f"{100 * bubble(STAGES, PARTS):.0f} % of the time, at the beginning and at the end.", height=400)
    for stage, row in enumerate(rows):
        y = TOP + stage * ROW
        f.text(10, y + 24, f"stage {stage}", 20, "start", bold=True)
        f.area(LEFT, y, end * UNIT, 48, HOST.pale)
        for kind, part, begin, stop in row:
            f.box(LEFT + begin * UNIT, y, (stop - begin) * UNIT, 48, str(part), COPY if kind == "F" else COMPUTE, solid=kind == "B", size=18)
    f.arrow((LEFT, TOP + STAGES * ROW - 6), (LEFT + end * UNIT, TOP + STAGES * ROW - 6))
    f.text(LEFT + end * UNIT, TOP + STAGES * ROW + 14, "time", 18, "end")
    y = TOP + STAGES * ROW + 20
    for x, colour, solid, text in ((90, COPY, False, "forward of a micro-batch"), (390, COMPUTE, True, "backward"),
                                   (570, HOST, False, f"idle: the bubble, {100 * bubble(STAGES, PARTS):.0f} %")):
        f.box(x, y, 40, 28, "", colour, solid=solid)
        f.text(x + 50, y + 14, text, 18, "start")
    return f
