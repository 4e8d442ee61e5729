"""Why a training step of the default model takes 69 us and not 12: the estimate, the fixed costs and the sum of all kernels,
computed with the rates of the modelled H100 as in launches.py."""
from drawing import COMPUTE, FOURTH, HOST, UPDATE, Figure, measure
from formulas import launch_seconds, mlp_flops, mlp_parameters
from launches import BATCH, GPU, WIDTHS, kernels

LEFT, SCALE, PITCH, HEIGHT = 250, 10.5, 92, 56  # of the bars; pixels per microsecond


def draw():
    found = kernels(BATCH)
    products = 3 * (len(WIDTHS) - 1) - 1  # the first layer needs no gradient of its inputs
    work = mlp_flops(BATCH, *WIDTHS) / GPU["fp32"] * 1e6
    update = 20 * mlp_parameters(*WIDTHS) / GPU["memory"] * 1e6
    gaps, starts = len(found) * GPU["gap"] * 1e6, products * GPU["product"] * 1e6
    whole = sum(seconds for _, seconds in found) * 1e6
    rows = (("on paper", [("products", work, COMPUTE), ("update", update, UPDATE)]),
            ("fixed costs", [(f"{len(found)} gaps: {gaps:g}", gaps, HOST), (f"start of {products} products: {starts:g}", starts, FOURTH)]),
            ("modelled step", [(f"fixed costs: {gaps + starts:g}", gaps + starts, HOST), (f"work: {whole - gaps - starts:.1f}", whole - gaps - starts, COMPUTE)]),
            ("the host's calls", [(f"{len(found)} calls, while the GPU computes", launch_seconds(len(found), GPU) * 1e6, HOST)]))
    f = Figure("The time of a training step: estimate, fixed costs, model", " ".join(
        f"{name}: " + ", ".join(f"{part} {us:.1f} us" for part, us, _ in parts) + "." for name, parts in rows), PITCH * len(rows) + 4)
    for i, (name, parts) in enumerate(rows):
        y, x = 4 + PITCH * i, LEFT
        f.text(LEFT - 18, y + HEIGHT / 2, name, 24, "end", bold=True)
        for part, us, colour in parts:
            wide = us * SCALE > measure(part, 20) + 4
            f.box(x, y, us * SCALE, HEIGHT, part if wide else "", colour, size=20)
            x += us * SCALE
        outside = "" if wide else " = " + " + ".join(f"{part} {us:.1f}" for part, us, _ in parts)
        f.text(x + 14, y + HEIGHT / 2, f"{sum(us for _, us, _ in parts):.1f} µs{outside}", 24, "start", bold=True)
    return f
