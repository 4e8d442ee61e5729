"""The values of a token that a rank keeps in a block of a transformer for backward: 16 widths (zoo/models/models.h), 12 of
them inside the pairs of dense layers. The 4 statistics of the normalisations are left out."""
from drawing import COMMUNICATE, COMPUTE, bars

INSIDE, OUTSIDE = 12, 4  # widths inside and outside the pairs
ROWS = [(t, own_tokens) for t in (1, 2, 4, 8) for own_tokens in (0, 1) if t > 1 or not own_tokens]


def draw():
    rows = []
    for t, own_tokens in ROWS:
        sizes = INSIDE / t, OUTSIDE / (t if own_tokens else 1)
        rows.append((f"--tensor {t}" + " --sequence 1" * own_tokens, list(zip(sizes, (COMPUTE, COMMUNICATE))), f"{sum(sizes):g} × width"))
    return bars("Activations of a token in a block of a transformer", "In widths.", rows, 330, 648,
                (("inside the pairs of matrices", COMPUTE), ("outside", COMMUNICATE)), 60, 58, 40)
