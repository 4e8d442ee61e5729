"""The gradient of a batch of four samples, on one GPU and on two ranks."""
from drawing import COMMUNICATE, COMPUTE, COPY, Figure

GRADIENTS = (2, 4, 6, 8)


def draw():
    f = Figure("The gradient of a batch is a sum", "One GPU adds the gradients 2, 4, 6 and 8 and divides by 4: 5. Rank 0 adds 2 and 4 and divides by 4: "
               "1.5. Rank 1 adds 6 and 8 and divides by 4: 3.5. The sum of both ranks is 5, too.", 330)
    batch = len(GRADIENTS)
    f.text(10, 50, "one GPU", 20, "start", bold=True)
    for i, gradient in enumerate(GRADIENTS):
        f.box(170 + 76 * i, 20, 66, 60, str(gradient), COPY, size=24)
    f.arrow((480, 50), (560, 50))
    f.box(570, 20, 300, 60, f"({' + '.join(map(str, GRADIENTS))}) / {batch}", COMPUTE, size=22)
    f.arrow((876, 50), (956, 50))
    f.box(966, 20, 144, 60, f"{sum(GRADIENTS) / batch:g}", COMPUTE, solid=True, size=26, bold=True)
    for rank in range(2):
        y, part = 140 + 100 * rank, GRADIENTS[2 * rank:2 * rank + 2]
        f.text(10, y + 30, f"rank {rank}", 20, "start", bold=True)
        for i, gradient in enumerate(part):
            f.box(170 + 76 * (2 * rank + i), y, 66, 60, str(gradient), COPY, size=24)
        f.arrow((480, y + 30), (560, y + 30))
        f.box(570, y, 300, 60, f"({' + '.join(map(str, part))}) / {batch} = {sum(part) / batch:g}", COMPUTE, size=22)
        f.arrow((876, y + 30), (956, 220 - 40 + 20 * rank))
    f.box(966, 150, 144, 80, f"sum: {sum(GRADIENTS) / batch:g}", COMMUNICATE, solid=True, size=26, bold=True)
    f.text(1038, 262, "all-reduce", 20)
    return f
