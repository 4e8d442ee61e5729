"""What larger programs do against the bubble of 1F1B. Forward takes as long as each half of backward: the gradients of the inputs
and those of the parameters. Sources: https://arxiv.org/abs/2104.04473 for interleaved stages, https://arxiv.org/abs/2401.10241 for
zero-bubble schedules (ZB-H1)."""
from drawing import COMPUTE, COPY, FOURTH, UPDATE, Figure

STAGES, PARTS = 4, 8
LEFT, RIGHT, TOP, ROW, BLOCK = 86, 1110, 40, 28, 158  # pixels


def run(chunks, divided):
    """The works of each stage as (F, B or W, micro-batch, chunk, begin, end). chunks: parts of the model in each stage. divided: W,
    the gradients of the parameters, is a work of its own. Then stage s does it s micro-batches later, or when it has no other work."""
    rows, done = [[] for _ in range(STAGES)], [dict.fromkeys("FBW", 0) for _ in range(STAGES)]
    length = {"F": 1 / chunks, "B": (1 if divided else 2) / chunks, "W": 1 / chunks}
    ends, time, last, works = {}, 0, STAGES * chunks - 1, PARTS * chunks

    def numbered(kind, number):  # as many micro-batches as stages go through a chunk, then through the next one
        chunk = number // STAGES % chunks
        return number // (STAGES * chunks) * STAGES + number % STAGES, chunk if kind == "F" else chunks - 1 - chunk

    def next_of(stage):
        count, behind = done[stage], STAGES - 1 - stage
        ahead = behind + 1 if chunks == 1 else 2 * behind + (chunks - 1) * STAGES + 1
        kind = "F" if count["F"] < min(works, count["B"] + ahead) else "B"
        part, chunk = numbered(kind, count[kind])
        number = chunk * STAGES + stage  # of this part of the model
        needed = ("F", number - 1) if kind == "F" else ("B", number + 1) if number < last else ("F", last)
        ready = count[kind] < works and (needed[1] < 0 or ends.get((*needed, part), time + 1) <= time)
        waiting = count["B"] - count["W"] if divided else 0
        return "W" if waiting > (stage if ready else 0) else kind if ready else None

    while any(count["B"] < works or (divided and count["W"] < works) for count in done):
        for stage, row in enumerate(rows):
            kind = next_of(stage) if not row or row[-1][-1] <= time else None
            if kind:
                part, chunk = numbered(kind, done[stage][kind])
                done[stage][kind] += 1
                row.append((kind, part, chunk, time, time + length[kind]))
                ends[kind, chunk * STAGES + stage, part] = time + length[kind]
        time += 1 / chunks
    return rows


def draw():
    schedules = {"1f1b": run(1, False), "interleaved, two chunks of layers in each stage": run(2, False), "zero-bubble (ZB-H1)": run(1, True)}
    times = {name: max(row[-1][-1] for row in rows) for name, rows in schedules.items()}
    idle = {name: 100 * (1 - 3 * PARTS / time) for name, time in times.items()}
    scale, bottom = (RIGHT - LEFT) / max(times.values()), TOP + len(schedules) * BLOCK
    f = Figure("A training step of a pipeline with three schedules, on paper", f"Four stages and eight micro-batches; transfers take no time. "
               + " ".join(f"{name}: the stages are idle for {share:.0f} % of the step." for name, share in idle.items()), bottom + 30)
    for i, (name, stages) in enumerate(schedules.items()):
        top = TOP + i * BLOCK
        f.text(10, top - 18, f"{name}: idle {idle[name]:.0f} %", 20, "start", bold=True)
        for stage, row in enumerate(stages):
            f.lane(LEFT, top + stage * ROW, ROW - 4, scale, f"stage {stage}", times[name], [
                (begin, end, str(part), UPDATE if kind == "W" else FOURTH if chunk else COPY if kind == "F" else COMPUTE, kind != "F")
                for kind, part, chunk, begin, end in row])
    f.legend(LEFT, bottom - 6, (("forward", COPY, False), ("backward", COMPUTE), ("of the second chunk", FOURTH),
                                ("gradients of the parameters, later", UPDATE)))
    return f
