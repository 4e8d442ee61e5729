"""Why a training step of the default model takes 151 us (162 with --profile) and not 12: the estimate, the fixed costs,
the sum of all kernels and the host's calls, computed with the rates of the modelled H100 as in launches.py."""
from drawing import COMPUTE, FOURTH, HOST, UPDATE, Figure, measure
from formulas import fixed_seconds, launch_seconds, mlp_flops, mlp_parameters
from launches import BATCH, GPU, WIDTHS, kernels

LEFT, SCALE, PITCH, HEIGHT = 250, 4.6, 92, 56  # of the bars; pixels per microsecond


def draw():
    found = kernels(BATCH)
    products = 3 * (len(WIDTHS) - 1) - 1  # the first layer needs no gradient of its inputs
    work = mlp_flops(BATCH, *WIDTHS) / GPU["fp32"] * 1e6
    update = 20 * mlp_parameters(*WIDTHS) / GPU["memory"] * 1e6
    small = len(found) - products
    gaps, kernel_starts, product_starts = (1e6 * n * GPU[rate] for n, rate in ((len(found), "gap"), (small, "kernel"), (products, "product")))
    fixed = fixed_seconds(small, products, GPU) * 1e6
    whole = sum(seconds for _, seconds, _ in found) * 1e6
    product_calls, kernel_calls = launch_seconds(0, products, GPU) * 1e6, launch_seconds(small, 0, GPU) * 1e6
    rows = (("on paper", [("products", work, COMPUTE), ("update", update, UPDATE)]),
            ("fixed costs", [(f"gaps {gaps:g}", gaps, HOST), (f"kernels {kernel_starts:g}", kernel_starts, UPDATE),
                             (f"products {product_starts:g}", product_starts, FOURTH)]),
            ("the GPU's time", [("fixed costs", fixed, HOST), ("work", whole - fixed, COMPUTE)]),
            ("the host's calls", [(f"{products} products {product_calls:.1f}", product_calls, FOURTH),
                                  (f"{small} kernels {kernel_calls:.1f}", kernel_calls, UPDATE)]))
    f = Figure("The time of a training step: estimate, fixed costs, GPU and host", " ".join(
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
