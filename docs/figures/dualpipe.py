"""DualPipe of DeepSeek-V3 (https://arxiv.org/abs/2412.19437, section 3.2.1) on paper: half of the micro-batches enter at each end, so
each rank stores two stages. The order of the works is that of https://github.com/deepseek-ai/DualPipe. F, B (the gradients of the
inputs) and W (those of the parameters) take as long."""
from drawing import COMPUTE, COPY, FOURTH, UPDATE, Figure
from schedules import PARTS, STAGES, run

LEFT, RIGHT, TOP, ROW = 86, 1110, 44, 40
# Of ranks 0 and 1; ranks 3 and 2 are their mirror images. A number is the end at which a micro-batch has entered, 0 for the near one.
# The works of a word run together, so their results leave at its end.
ORDERS = ("F0 F0 F0 F1 B1 W1 F1 F0B1W1 F1B0W0 B1W1 F1B0W0 B1W1 B0 W0 B0 W0", "F0 F1 F0 F1 F0B1W1 F1B0W0 F0B1W1 F1B0W0 B1W1 B0W0 B1 B0 W1 W0")


def both_ends():
    """The works of each rank as (kind, end, micro-batch, begin)."""
    rows, ends = [[] for _ in range(STAGES)], {}
    left = [ORDERS[min(rank, STAGES - 1 - rank)].split() for rank in range(STAGES)]
    while any(left):
        for rank, row in enumerate(rows):
            works, needed = [], [row[-1][-1] + 1 if row else 0]
            for kind, far in zip(*[iter(left[rank][0] if left[rank] else "")] * 2):
                end = int(far) ^ (rank >= STAGES // 2)
                part, stage = sum(other[:2] == (kind, end) for other in row), STAGES - 1 - rank if end else rank
                works.append((kind, end, part, stage))
                if kind == "F" and stage > 0:
                    needed.append(ends.get(("F", end, part, stage - 1)))
                if kind == "B":
                    needed.append(ends.get(("B", end, part, stage + 1) if stage < STAGES - 1 else ("F", end, part, stage)))
            if works and None not in needed:
                left[rank].pop(0)
                row += [(*work[:3], max(needed) + i) for i, work in enumerate(works)]
                ends.update({work: max(needed) + len(works) for work in works})
    return rows


def kept(row):
    """The most micro-batches whose activations a rank keeps, until their W."""
    kinds = [kind for kind, *_ in row]
    return max(kinds[:i].count("F") - kinds[:i].count("W") for i in range(len(kinds) + 1))


def draw():
    rows = both_ends()
    end = 1 + max(row[-1][-1] for row in rows)
    before = run(1, True)
    idle, other = (100 * (1 - 3 * PARTS / time) for time in (end, max(row[-1][-1] for row in before)))
    most, others = (max(map(kept, schedule)) for schedule in (rows, before))
    scale = (RIGHT - LEFT) / end
    f = Figure("DualPipe: micro-batches enter a pipeline at both ends, on paper", f"Four ranks and {PARTS} micro-batches. Half of them go from "
               f"rank 0 to rank 3, the others from rank 3 to rank 0. The ranks are idle for {idle:.0f} % of the step and keep the activations "
               f"of {most} micro-batches, and with a zero-bubble schedule (ZB-H1), for {other:.0f} %, and of {others}.", TOP + ROW * STAGES + 130)
    f.text(10, 18, f"idle {idle:.0f} %, activations of {most} micro-batches; zero-bubble (ZB-H1): idle {other:.0f} %, of {others}", 20, "start", bold=True)
    for rank, row in enumerate(rows):
        f.lane(LEFT, TOP + rank * ROW, ROW - 4, scale, f"rank {rank}", end, [
            (begin, begin + 1, str(part + way * PARTS // 2), UPDATE if kind == "W" else FOURTH if way else COPY if kind == "F" else COMPUTE,
             kind != "F") for kind, way, part, begin in row])
    y = TOP + STAGES * ROW + 36
    f.legend(LEFT, y, (("forward, from rank 0", COPY, False), ("its backward (of the inputs)", COMPUTE)))
    f.legend(LEFT, y + 38, (("forward, from rank 3", FOURTH, False), ("its backward (of the inputs)", FOURTH), ("gradients of the parameters", UPDATE)))
    return f
