"""The host fills a stream with the operations of a training step (train_step in 01_single_gpu/train.c), and the GPU empties it."""
from drawing import COMPUTE, COPY, HOST, UPDATE, Figure

OPERATIONS = ("gather", "forward", "loss", "backward", "update")


def draw():
    f = Figure("The stream of a training step", f"The host puts {', '.join(OPERATIONS)} into the stream, and the GPU takes them out in this order.", 150)
    f.box(10, 45, 140, 80, "host", HOST, size=22, bold=True)
    f.arrow((156, 85), (212, 85))
    f.group(218, 8, 684, 134, "stream", COPY, size=20)
    for i, name in enumerate(reversed(OPERATIONS)):
        f.box(236 + i * 130, 52, 122, 66, name, UPDATE if name == "update" else COMPUTE, size=20)
    f.arrow((908, 85), (964, 85))
    f.box(970, 45, 140, 80, "GPU", COMPUTE, solid=True, size=22, bold=True)
    return f
