"""Published bus bandwidths of all-reduces of large messages on 1, 2 and 4 nodes of 8 GPUs: the tables of
cpu_device/tests/test_published.c, which names their sources. The bandwidth is 2 (n - 1) / n times bytes divided by time."""
import re

from drawing import COMMUNICATE, COMPUTE, FOURTH, HOST, Figure, read

TOP, BOTTOM, MOST = 60, 370, 500  # GB/s at the top
GPUS = (("h100", "8 H100 per node", COMPUTE, (1, 2, 4)), ("h200", "8 H200 per node", COMMUNICATE, (1, 2, 4)))


def busbw(gpu, nodes):
    """The best bandwidth of the longest message in the tables of nccl-tests on these nodes, in GB/s."""
    tables = re.findall(rf'CALL_ALL_REDUCE, "{gpu}", "{nodes}x8", NULL, (\d+), 0,\s*{{(.*?)}}}}',
                        read("cpu_device/tests/test_published.c"), re.DOTALL)
    longest = [(int(n), *map(float, re.findall(r"([\d.]+), ([\d.]+)", points)[-1])) for n, points in tables]
    return max(2 * (n - 1) / n * kib * 1024 / us / 1000 for n, kib, us in longest)


def y(value):
    return BOTTOM - (BOTTOM - TOP) * value / MOST


def draw():
    values = {(gpu, nodes): busbw(gpu, nodes) for gpu, _, _, counts in GPUS for nodes in counts}
    f = Figure("Published bus bandwidth of an all-reduce on 1, 2 and 4 nodes", "Large messages, in GB/s. " +
               " ".join(f"{name}: " + ", ".join(f"{values[gpu, n]:.0f} on {n}" for n in counts) + "."
                        for gpu, name, _, counts in GPUS), 460)
    for level in range(0, MOST + 1, 100):
        f.line((84, y(level)), (1090, y(level)), colour=HOST, thick=1)
        f.text(70, y(level), str(level), 18, "end")
    f.line((84, y(400)), (1090, y(400)), colour=FOURTH, thick=3, dashed=True)
    f.text(1096, 22, "dashed: 8 NICs of 50 GB/s", 20, "end")
    f.text(20, 22, "bus bandwidth in GB/s", 20, "start")
    for group, (gpu, name, colour, counts) in enumerate(GPUS):
        left = 130 + 500 * group
        for i, nodes in enumerate(counts):
            value, at = values[gpu, nodes], left + 140 * i
            f.box(at, y(value), 110, BOTTOM - y(value), colour=colour, solid=True)
            f.area(at + 20, y(value) - 36, 70, 30, "#FFFFFF")
            f.text(at + 55, y(value) - 20, f"{value:.0f}", 24, bold=True)
            f.text(at + 55, BOTTOM + 24, f"{nodes} node{'s' if nodes > 1 else ''}", 20)
        f.text(left + 195, BOTTOM + 64, name, 24, bold=True)
    return f
