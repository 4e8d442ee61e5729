"""Why a training step of the default model takes 151 us (162 with --profile) and not 12: the estimate, the fixed costs,
the sum of all kernels and the host's calls, computed with the rates of the modelled H100 as in launches.py."""
from drawing import COMPUTE, FOURTH, HOST, UPDATE, bars
from formulas import fixed_seconds, launch_seconds, mlp_flops, mlp_parameters
from launches import BATCH, GPU, WIDTHS, kernels


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
    rows = [(name, [(us, colour, part) for part, us, colour in parts], f"{sum(us for _, us, _ in parts):.1f} µs") for name, parts in rows]
    rows[0] = (*rows[0][:2], f"{rows[0][2]} = products {work:.1f} + update {update:.1f}")
    return bars("The time of a training step: estimate, fixed costs, GPU and host", "In microseconds.", rows, 250, 745, top=4, pitch=92, height=56)
