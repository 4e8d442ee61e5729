"""The values of a token that a rank keeps in a block of a transformer for backward: 18 widths (zoo/models/models.h), 12 of
them inside the pairs of dense layers. The 4 statistics of the normalisations are left out."""
from drawing import COMMUNICATE, COMPUTE, Figure

INSIDE, OUTSIDE = 12, 6  # widths inside and outside the pairs
ROWS = [(t, own_tokens) for t in (1, 2, 4, 8) for own_tokens in (0, 1) if t > 1 or not own_tokens]
LEFT, TOP, ROW, BAR, UNIT = 330, 60, 58, 40, 36


def draw():
    sizes = [(INSIDE / t, OUTSIDE / (t if own_tokens else 1)) for t, own_tokens in ROWS]
    f = Figure("Activations of a token in a block of a transformer",
               "In widths: " + "; ".join(f"{t} part{'s' * (t > 1)}{', --sequence 1' * own}: {sum(size):g}"
                                         for (t, own), size in zip(ROWS, sizes)) + ".", height=490)
    f.legend(LEFT, 24, (("inside the pairs of matrices", COMPUTE), ("outside", COMMUNICATE)))
    for i, ((t, own_tokens), size) in enumerate(zip(ROWS, sizes)):
        y = TOP + i * ROW
        f.text(LEFT - 16, y + BAR / 2, f"--tensor {t}" + " --sequence 1" * own_tokens, 18, "end", code=True)
        f.bar(LEFT, y, BAR, UNIT, list(zip(size, (COMPUTE, COMMUNICATE))), f"{sum(size):g} × width")
    return f
