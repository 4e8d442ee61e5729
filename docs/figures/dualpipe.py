"""A bidirectional pipeline on paper, after DualPipe of DeepSeek-V3 (https://arxiv.org/abs/2412.19437, section 3.2.1): half of the
micro-batches enter at each end, so each rank stores two stages. F, B and W (the gradients of the parameters) take as long. DualPipe
also runs an F and a B of opposite directions together, which this picture leaves out."""
from drawing import COMPUTE, COPY, FOURTH, UPDATE, Figure
from schedules import PARTS, STAGES, run

LEFT, RIGHT, TOP, ROW = 86, 1110, 44, 40


def both_ends():
    """The works of each rank as (kind, direction, micro-batch, begin)."""
    rows, ends, each = [[] for _ in range(STAGES)], {}, PARTS // 2

    def ready(kind, way, part, stage, time):
        needed = {"F": ("F", way, part, stage - 1), "B": ("B", way, part, stage + 1)}[kind]
        if kind == "B" and stage == STAGES - 1:
            needed = ("F", way, part, stage)
        return (kind == "F" and stage == 0) or ends.get(needed, time + 1) <= time

    for time in range(100):
        for rank, row in enumerate(rows):
            done = [(kind, way) for kind, way, _, _ in row]
            chosen = None
            for kind in "BF":
                for way in sorted((0, 1), key=lambda way: done.count((kind, way))):
                    part, stage = done.count((kind, way)), rank if way == 0 else STAGES - 1 - rank
                    ahead = done.count(("F", way)) - done.count(("B", way)) < STAGES - stage
                    if chosen is None and part < each and (kind == "B" or ahead) and ready(kind, way, part, stage, time):
                        chosen = (kind, way, part, stage)
            if chosen is None:  # W has time
                way = next((way for way in (0, 1) if done.count(("W", way)) < done.count(("B", way))), None)
                chosen = None if way is None else ("W", way, done.count(("W", way)), None)
            if chosen:
                kind, way, part, stage = chosen
                row.append((kind, way, part, time))
                ends[kind, way, part, stage] = time + 1
    return rows


def draw():
    rows = both_ends()
    end = 1 + max(row[-1][-1] for row in rows)
    idle, before = (100 * (1 - 3 * PARTS / time) for time in (end, max(row[-1][-1] for row in run(1, True))))
    scale = (RIGHT - LEFT) / end
    f = Figure("A pipeline into which micro-batches enter at both ends, on paper", f"Four ranks and {PARTS} micro-batches. Half of them go from "
               f"rank 0 to rank 3, the others from rank 3 to rank 0. The ranks are idle for {idle:.0f} % of the step, and with a zero-bubble "
               f"schedule (ZB-H1) for {before:.0f} %.", TOP + ROW * STAGES + 130)
    f.text(10, 18, f"idle {idle:.0f} % of the step; zero-bubble (ZB-H1) with as many micro-batches: {before:.0f} %", 20, "start", bold=True)
    for rank, row in enumerate(rows):
        f.lane(LEFT, TOP + rank * ROW, ROW - 4, scale, f"rank {rank}", end, [
            (begin, begin + 1, str(part + way * PARTS // 2), UPDATE if kind == "W" else FOURTH if way else COPY if kind == "F" else COMPUTE,
             kind != "F") for kind, way, part, begin in row])
    y = TOP + STAGES * ROW + 36
    f.legend(LEFT, y, (("forward, from rank 0", COPY, False), ("its backward (of the inputs)", COMPUTE)))
    f.legend(LEFT, y + 38, (("forward, from rank 3", FOURTH, False), ("its backward (of the inputs)", FOURTH), ("gradients of the parameters", UPDATE)))
    return f
