"""The estimate of a training step on paper, and the four answers of the vote, on one axis of microseconds."""
from drawing import COMPUTE, HOST, UPDATE, Figure
from formulas import gpus, mlp_flops, mlp_parameters

LEFT, SCALE, WIDTHS, ANSWERS = 40, 6.4, (784, 512, 512, 10), (12, 25, 60, 160)


def estimate():
    """Microseconds of the products in forward and in backward, and of the update."""
    rates = gpus()["h100"]
    forward = 2 * 128 * sum(inputs * outputs for inputs, outputs in zip(WIDTHS, WIDTHS[1:]))
    update = 20 * mlp_parameters(*WIDTHS) / rates["memory"] * 1e6
    return forward / rates["fp32"] * 1e6, (mlp_flops(128, *WIDTHS) - forward) / rates["fp32"] * 1e6, update


def draw():
    *products, update = estimate()
    products = sum(products)
    f = Figure("The estimate of a training step, and four answers", f"Products {products:.1f} and update {update:.1f} microseconds. "
               f"The answers are {', '.join(map(str, ANSWERS))} microseconds.", 210)
    f.bar(LEFT, 20, 60, SCALE, [(products, COMPUTE), (update, UPDATE)], f"on paper: {products:.1f} + {update:.1f} = {products + update:.1f} µs")
    f.line((LEFT, 110), (LEFT + 166 * SCALE, 110), colour=HOST)
    for answer in ANSWERS:
        f.line((LEFT + answer * SCALE, 98), (LEFT + answer * SCALE, 122), thick=4)
        f.text(LEFT + answer * SCALE, 160, f"{answer}?", 34, bold=True)
    return f
