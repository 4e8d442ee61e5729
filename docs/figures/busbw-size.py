"""Modelled bus bandwidth of an all-reduce against the size of the message: rings of 2 and 8 GPUs, and NVLS on 8. The table
busbw-size.txt has rows of: GPUs, algorithm, bytes, GB/s. Its commands stand below the figure in docs/slides/2-data-parallel.md."""
from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Axes, Figure
from links import rate

STYLES = {("2", "Ring"): (COMPUTE, "circle"), ("8", "Ring"): (COMMUNICATE, "square"), ("8", "NVLS"): (UPDATE, "diamond")}


def draw(text):
    curves = {}
    for line in text.splitlines():
        ranks, algorithm, size, busbw = line.split()[:4]
        curves.setdefault((ranks, algorithm), []).append((int(size) // 1024, float(busbw)))
    sizes = [kib for kib, _ in next(iter(curves.values()))]
    link = rate("link")
    f = Figure("Bus bandwidth against the size of the message, modelled H100", " ".join(
        f"{ranks} GPUs, {algorithm}: {values[0][1]:.1f} GB/s with {sizes[0]} KiB, {values[-1][1]:.0f} GB/s with {sizes[-1] // 1024} MiB."
        for (ranks, algorithm), values in curves.items()), 350)
    axes = Axes(f, 84, 54, 760, 230, sizes, 500, 100, ("message in KiB", "busbw in GB/s, modelled"))
    f.line((84, axes.y(link)), (844, axes.y(link)), colour=HOST, thick=2.5, dashed=True)
    f.text(100, axes.y(link) + 17, f"a link: {link:g} GB/s", 20, "start")
    label = 0  # where the one above is
    for (ranks, algorithm), values in sorted(curves.items(), key=lambda curve: -curve[1][-1][1]):
        colour, mark = STYLES[ranks, algorithm]
        axes.curve(values, colour, mark)
        label = max(label + 24, axes.y(values[-1][1]))
        f.text(860, label, f"{ranks} GPUs, {algorithm}: {values[-1][1]:.0f}", 20, "start", bold=True)
    return f
