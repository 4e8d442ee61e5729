"""A training step of a pipeline with the schedule 1F1B (one forward, one backward): https://arxiv.org/abs/2104.04473, section
2.2. Backward takes twice as long as forward."""
from drawing import COMPUTE, COPY, HOST, Figure
from formulas import bubble
from schedules import PARTS, STAGES, run

LEFT, TOP, ROW, UNIT = 90, 40, 74, 31


def draw():
    rows = run(1, False)
    end = max(row[-1][-1] for row in rows)
    f = Figure("A training step of a pipeline of four stages",
               f"{STAGES} stages, each with a quarter of the layers, compute {PARTS} micro-batches. A stage begins when the stage before it "
               f"has sent its outputs. In backward, gradients go the other way. Each stage is idle for "
               f"{100 * bubble(STAGES, PARTS):.0f} % of the time, at the beginning and at the end.", height=400)
    for stage, row in enumerate(rows):
        f.lane(LEFT, TOP + stage * ROW, 48, UNIT, f"stage {stage}", end, [
            (begin, stop, str(part), COPY if kind == "F" else COMPUTE, kind == "B") for kind, part, _, begin, stop in row])
    f.arrow((LEFT, TOP + STAGES * ROW - 6), (LEFT + end * UNIT, TOP + STAGES * ROW - 6))
    f.text(LEFT + end * UNIT, TOP + STAGES * ROW + 14, "time", 18, "end")
    f.legend(LEFT, TOP + STAGES * ROW + 34, (("forward of a micro-batch", COPY, False), ("backward", COMPUTE),
                                             (f"idle: the bubble, {100 * bubble(STAGES, PARTS):.0f} %", HOST, False)))
    return f
