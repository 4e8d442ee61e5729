"""When the host queues the kernels of a training step of step 1 and when a GPU runs them, computed from the rates of the
modelled H100 as in cpu_device/src/gpu_model.c and product.c: for its calls, and for calls that take a quarter of the time."""
from drawing import COMPUTE, HOST, UPDATE, Figure
from formulas import gpus

WIDTHS, BATCH = (784, 512, 512, 10), 128
GPU = gpus()["h100"]
NAMES = {1: "Calls of a real host", 0.25: "Calls that take a quarter of the time"}
LANES_BYTES = 1024 * 24  # of the partial sums of the loss
TILE = 128  # rows and columns of a part of a product that a multiprocessor computes


def kernels(batch):
    """The name and the seconds of each kernel in a training step, in order, and those of the call that queues it."""
    def kernel(name, size, instructions=0, waits=0):
        work = max(size / GPU["memory"], instructions / GPU["instructions"], waits * GPU["wait"])
        found.append((name, GPU["gap"] + GPU["kernel"] + work, GPU["launch_call"]))

    def in_tiles(count):
        return -(-count // TILE) * TILE

    def product(name, m, n, k):
        work = max(2 * in_tiles(m) * in_tiles(n) * k / GPU["fp32"], 4 * (m * k + k * n + m * n) / GPU["memory"])
        found.append((name, GPU["gap"] + GPU["product"] + work, GPU["product_call"]))

    found, layers = [], list(zip(WIDTHS, WIDTHS[1:]))
    kernel("gather", batch * (4 * WIDTHS[0] + 5) + WIDTHS[0] + 1, 57 * batch * WIDTHS[0])
    for inputs, outputs in layers:
        product("forward", batch, outputs, inputs)
        kernel("forward", 4 * (2 * batch + 1) * outputs, 20 * batch * outputs)  # the biases
    kernel("loss", batch * (8 * WIDTHS[-1] + 1) + 2 * LANES_BYTES, waits=3)
    for i, (inputs, outputs) in reversed(list(enumerate(layers))):
        if i < len(layers) - 1:
            kernel("backward", 12 * batch * outputs)  # ReLU
        if i > 0:
            product("backward", batch, inputs, outputs)
        product("backward", outputs, inputs, batch)
        kernel("backward", 4 * (batch + 1) * outputs, waits=3)  # the sums for the biases
    kernel("update", 20 * sum((inputs + 1) * outputs for inputs, outputs in layers))
    return found


def timeline(share):
    """Calls (begin, end) of the host and kernels (name, begin, end) of the GPU, if a call takes this share of its time."""
    calls, runs, now, free = [], [], 0, 0
    for name, seconds, call in kernels(BATCH):
        calls.append((now, now + call * share))
        now += call * share
        begin = max(free, now + GPU["latency"])
        free = begin + seconds
        runs.append((name, begin, free))
    return calls, runs


def draw():
    lines = []
    for share in (1, 0.25):
        calls, runs = timeline(share)
        busy = sum(end - begin for _, begin, end in runs)
        lines.append((share, calls, runs, calls[-1][1] * 1e6, busy * 1e6, runs[-1][2] * 1e6))
    f = Figure("The host queues kernels, and the GPU runs them",
               f"A training step of the default model with batch {BATCH} has {len(runs)} kernels. " + " ".join(
                   f"{NAMES[share]}: the host queues them in {host:.1f} us, and the GPU computes for {busy:.0f} of {end:.0f} us." for share, _, _, host, busy, end in lines), 440)
    left, scale = 92, (1100 - 92) / 170  # pixels per microsecond
    for row, (share, calls, runs, host, busy, end) in enumerate(lines):
        y = 24 + row * 196
        f.text(20, y, f"{NAMES[share]}: the host needs {host:.1f} µs, and the GPU computes for {busy:.0f} of {end:.0f} µs",
               20, "start", bold=True)
        f.text(left - 12, y + 48, "host", 20, "end")
        f.text(left - 12, y + 112, "GPU", 20, "end")
        f.area(left, y + 86, end * scale, 52, HOST.pale)
        for begin, stop in calls:
            f.area(left + begin * 1e6 * scale, y + 26, (stop - begin) * 1e6 * scale - 1.5, 44, HOST.line)
        for name, begin, stop in runs:
            f.area(left + begin * 1e6 * scale, y + 86, (stop - begin) * 1e6 * scale - 1, 52, (UPDATE if name == "update" else COMPUTE).line)
    bottom = 24 + 196 + 138
    for time in range(0, 151, 50):
        f.line((left + time * scale, bottom + 6), (left + time * scale, bottom + 16), colour=HOST, thick=2)
        f.text(left + time * scale, bottom + 32, f"{time}", 18)
    f.text(left, bottom + 62, "µs, computed with the rates of the modelled H100", 18, "start")
    f.legend(590, bottom + 62, (("a call", HOST), ("a kernel", COMPUTE), ("the update", UPDATE), ("idle", HOST, False)))
    return f
