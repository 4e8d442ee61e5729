"""How fast the links of a GPU are, on a logarithmic scale: the rates of the modelled H100 (cpu_device/src/gpu_rates.c), whose sources
are in cpu_device/README.md."""
import re

from drawing import COMMUNICATE, COMPUTE, COPY, HOST, Figure, log_scale, read

LEFT, TOP, WIDTH, PITCH, HEIGHT = 392, 64, 560, 76, 46  # of the bars


def rate(key):
    """Of the H100, in GB/s: the second column."""
    return float(re.search(rf"RATE\({key}, .*?\{{ *[^,]*, *([\d.]+),", read("cpu_device/src/gpu_rates.c"))[1])


def draw():
    x = log_scale(1, 10000, LEFT, LEFT + WIDTH)  # GB/s
    ethernet = rate("network") / 4  # 100 Gbit/s of 400
    bars = [("memory of the GPU (HBM)", rate("memory"), COMPUTE), ("NVLink to the GPUs of the node", rate("link"), COMMUNICATE),
            ("PCIe 5 to the host", rate("pcie"), COPY), ("NIC of 400 Gbit/s per GPU", rate("network"), COMMUNICATE),
            ("Ethernet of 100 Gbit/s per node", ethernet, HOST), ("of it, for each of 8 GPUs", ethernet / 8, HOST)]
    f = Figure("Rates of the links of an H100", "In one direction, on a logarithmic scale: " +
               ", ".join(f"{name} {value:,g} GB/s" for name, value, _ in bars) + ".", TOP + PITCH * len(bars) + 16)
    for power in range(5):
        value = 10 ** power
        f.line((x(value), TOP - 14), (x(value), TOP + PITCH * len(bars) - 14), colour=HOST, thick=1)
        f.text(x(value), TOP - 34, f"{value:,}", 18)
    f.text(1096, TOP - 34, "GB/s", 20, "end")
    for i, (name, value, colour) in enumerate(bars):
        y = TOP + PITCH * i
        f.text(LEFT - 16, y + HEIGHT / 2, name, 22, "end")
        f.box(LEFT, y, x(value) - LEFT, HEIGHT, colour=colour, solid=True)
        f.area(x(value) + 8, y + 6, 90, HEIGHT - 12, "#FFFFFF")
        f.text(x(value) + 14, y + HEIGHT / 2, f"{value:,g}", 24, "start", bold=True)
    return f
