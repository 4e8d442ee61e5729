"""Published bus bandwidths of all-reduces of large messages on 1, 2 and 4 nodes of 8 GPUs: the tables of
cpu_device/tests/test_published.c, which names their sources. The bandwidth is 2 (n - 1) / n times bytes divided by time."""
import re

from drawing import COMMUNICATE, COMPUTE, bars, read


def busbw(gpu, nodes):
    """The best bandwidth of the longest message in the tables of nccl-tests on these nodes, in GB/s."""
    tables = re.findall(rf'CALL_ALL_REDUCE, "{gpu}", "{nodes}x8", NULL, (\d+), 0,\s*{{(.*?)}}}}',
                        read("cpu_device/tests/test_published.c"), re.DOTALL)
    longest = [(int(n), *map(float, re.findall(r"([\d.]+), ([\d.]+)", points)[-1])) for n, points in tables]
    return max(2 * (n - 1) / n * kib * 1024 / us / 1000 for n, kib, us in longest)


def draw():
    rows = [(f"{nodes} node{'s' * (nodes > 1)} of 8 {gpu.upper()}", busbw(gpu, nodes), colour)
            for gpu, colour in (("h100", COMPUTE), ("h200", COMMUNICATE)) for nodes in (1, 2, 4)]
    return bars("Published bus bandwidth of an all-reduce on 1, 2 and 4 nodes", "Large messages, in GB/s.", [
        (name, [(value, colour, f"{value:.0f} GB/s")], "") for name, value, colour in rows], 250, 840, top=24, pitch=64, height=50,
        limit=(400, "8 NICs of 50 GB/s"))
