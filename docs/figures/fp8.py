"""The bits of FP8 (E4M3, https://arxiv.org/abs/2209.05433), and why each block of a matrix needs a scale: DeepSeek-V3 has one for 128
values of an activation and for 128 x 128 of a weight (https://arxiv.org/abs/2412.19437, section 3.3.2)."""
import math

from drawing import COMMUNICATE, COPY, HOST, UPDATE, Figure

FORMATS = (("fp32", 8, 23), ("bfloat16", 8, 7), ("fp16", 5, 10), ("FP8, E4M3", 4, 3))
LARGEST, DIGITS, LEAST = 448, 3, -9  # of E4M3: the largest number, bits of the fraction, and the power of two of the smallest number
VALUES = ((0.0004, 0.0007, 0.0011, 0.0016), (100, 200, 300, 400))  # of two blocks


def rounded(value):
    """The nearest number of E4M3."""
    power = max(math.floor(math.log2(value)) - DIGITS, LEAST)
    return round(value / 2 ** power) * 2 ** power


def draw():
    f = Figure("The bits of FP8, and a scale for each block", f"FP8 has 4 bits for the exponent and 3 for the fraction, so its numbers go from "
               f"0.002 to {LARGEST}. With one scale for all values, the small ones become 0. With a scale for each block, they do not.", 410)
    for i, (name, exponent, fraction) in enumerate(FORMATS):
        y = 8 + 44 * i
        f.text(150, y + 17, name, 20, "end", bold=True)
        for bit in range(1 + exponent + fraction):
            colour = HOST if bit == 0 else COMMUNICATE if bit <= exponent else COPY
            f.box(164 + 24 * bit, y, 22, 34, "", colour, solid=True)
    f.legend(600, 162, (("sign", HOST), ("exponent: range", COMMUNICATE), ("fraction: digits", COPY)))
    f.line((10, 196), (1110, 196), colour=HOST)
    most = max(map(max, VALUES))
    for row, (name, scales) in enumerate((("values", None), ("FP8, one scale", (most, most)), ("FP8, a scale per block", tuple(map(max, VALUES))))):
        y = 216 + 66 * row
        f.text(250, y + 25, name, 20, "end", bold=True)
        for block, values in enumerate(VALUES):
            for i, value in enumerate(values):
                shown = value if scales is None else rounded(value * LARGEST / scales[block]) * scales[block] / LARGEST
                lost = abs(shown / value - 1) > 0.07
                f.box(270 + 430 * block + 102 * i, y, 96, 50, f"{shown:.2g}" if shown < 1 else f"{shown:.0f}",
                      COMMUNICATE if lost else HOST if scales is None else UPDATE, solid=lost, size=20)
    return f
