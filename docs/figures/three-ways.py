"""Sixteen GPUs in four nodes: tensor parallelism inside a node, a pipeline between nodes, and two replicas (09_tensor)."""
from drawing import COMMUNICATE, COMPUTE, COPY, FOURTH, HOST, Figure

PARTS, REPLICAS = 4, 2
GPU, GAP, WIDTH, HEIGHT = 76, 22, 420, 150
COLUMNS, LINES = (120, 620), (40, 280)


def draw():
    f = Figure("Tensor, pipeline and data parallelism on sixteen GPUs",
               "Four nodes with four GPUs each. The four GPUs of a node divide each matrix, and sum their shares over NVLink. Two nodes "
               "are the two stages of a pipeline. Two pipelines are replicas: each trains on half of the batch, and GPUs with the same "
               "layers and the same part sum their gradients.", height=510)
    for replica, left in enumerate(COLUMNS):
        f.text(left + WIDTH / 2, 18, f"replica {replica}: {'first' if replica == 0 else 'second'} half of the batch", 20, bold=True)
        for stage, top in enumerate(LINES):
            f.area(left, top, WIDTH, HEIGHT, HOST.pale, HOST.line, corner=8)
            for part in range(PARTS):
                x = left + 25 + part * (GPU + GAP)
                rank = (stage * REPLICAS + replica) * PARTS + part
                f.box(x, top + 24, GPU, 64, f"rank\n{rank}", COMPUTE, solid=True, size=18, bold=True)
                f.line((x + GPU / 2, top + 88), (x + GPU / 2, top + 118), colour=COMMUNICATE, thick=5)
            f.line((left + 25 + GPU / 2, top + 118), (left + 25 + GPU / 2 + 3 * (GPU + GAP), top + 118), colour=COMMUNICATE, thick=5)
        for part in range(PARTS):
            x = left + 25 + part * (GPU + GAP) + GPU / 2
            f.arrow((x, LINES[0] + HEIGHT + 4), (x, LINES[1] - 4), colour=COPY, thick=3, both=True)
    for stage, top in enumerate(LINES):
        f.text(8, top + HEIGHT / 2, f"stage {stage}:\nlayers\n{'1 to 4' if stage == 0 else '5 to 8'}", 18, "start", bold=True)
        f.arrow((COLUMNS[0] + WIDTH + 4, top + 56), (COLUMNS[1] - 4, top + 56), colour=FOURTH, thick=3, both=True)
    y = LINES[1] + HEIGHT + 24
    f.legend(120, y + 12, (("sums of shares", COMMUNICATE), ("outputs and gradients", COPY), ("sums of gradients", FOURTH)))
    return f
