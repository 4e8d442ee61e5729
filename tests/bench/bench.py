"""What the benchmarks share: running programs, describing the machine, and tables."""
import os
import platform
import re
import statistics
import subprocess
import sys

TORCH_MNIST, TORCH_DDP = (["/usr/bin/python3", "-B", os.path.join(os.path.dirname(__file__), f"{name}.py")]
                          for name in ("torch_mnist", "torch_ddp"))
LR, MOMENTUM = "0.05", "0.9"


def option(name, default):
    """The word after the name on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def start(*command, **variables):
    """Starts the program, with these environment variables besides ours."""
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, text=True,
                            env={**os.environ, **variables})


def finish(child):
    """Output of the program, and its peak resident memory in MB."""
    output = child.stdout.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode:
        sys.exit(f"error: {' '.join(child.args)}: exit code {child.returncode}")
    return output, usage.ru_maxrss * 1024 / 1e6


def run(*command, **variables):
    return finish(start(*command, **variables))


def training(data, batch, epochs):
    """The trainers' options for a run whose progress reports cost nothing."""
    return ("--data", data, "--batch", batch, "--epochs", epochs, "--lr", LR, "--momentum", MOMENTUM,
            "--log-every", 1000000)


def speed(output):
    """Images per second of the median epoch. The first epoch, which warms up, does not count."""
    return statistics.median([float(each) for each in re.findall(r"[\d.]+ s  ([\d.]+) images/s", output)][1:])


def use_openblas():
    """Debian's PyTorch takes whatever libblas.so.3 the system points at; from here on that is the OpenBLAS that
    the CPU device would take without oneDNN."""
    flags, _ = run("tools/find_libs.sh", "cpu", PRODUCTS="cblas")
    found = re.search(r"-L(\S*openblas\S*)", flags)
    if found:
        os.environ["LD_LIBRARY_PATH"] = found[1]


def products(trainer):
    """The library of the trainer's matrix products, as its banner names it."""
    banner, _ = run(trainer, "--data", "synthetic", "--hidden", 8, "--max-steps", 1)
    return re.search(r"cores, (.*), no GPU", banner)[1]


def has_images(folder):
    return os.path.exists(f"{folder}/train-images-idx3-ubyte.gz")


def data_here():
    return next((f for f in ("data/mnist", "data/fashion-mnist") if has_images(f)), "synthetic")


def machine():
    with open("/proc/cpuinfo") as f:
        names = re.findall(r"model name\s*: (.*)", f.read())
    return (f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, Linux "
            f"{platform.release()}, load {os.getloadavg()[0]:.1f} beforehand")


def compiler(program):
    with open(program, "rb") as f:
        found = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", f.read())
    return found[0].decode() if found else "unknown"


def print_training(trainer, torch_script, threads, data):
    """Describes what the trainers are compared on, and which kernels each of them uses."""
    use_openblas()
    versions, _ = run(*torch_script, data, 64, 0, LR, MOMENTUM)
    torch_version, torch_blas = re.findall(r"^(?:PyTorch|BLAS) (.*)", versions, re.M)
    print(f"machine   {machine()}")
    print(f"compiler  {compiler(trainer)}; PyTorch {torch_version}")
    print(f"threads   {threads}; OPENBLAS_CORETYPE {os.environ.get('OPENBLAS_CORETYPE', 'unset')}")
    print(f"products  ours: {products(trainer)}")
    print(f"          PyTorch's: {torch_blas}")
    print(f"training  {data}, MLP 784-512-512-10, SGD with momentum {MOMENTUM}, lr {LR}", flush=True)


def spread(values, digits=0):
    """The median, and the lowest and highest."""
    middle, low, high = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low}{' to ' if min(values) < 0 else '-'}{high})"


def ratio(above, below, best=None):
    """Median of the ratios of the rounds, whose runs follow each other, so that a machine that is now faster
    and now slower does not spoil them; and the ratio of the best runs (max or min)."""
    median = f"{statistics.median(a / b for a, b in zip(above, below)):.2f}"
    return f"{median} ({best(above) / best(below):.2f})" if best else median


def show(label, cells, goal="", widths=(28, 24)):
    print(f"{label:{widths[0]}}" + "".join(f"{cell:>{widths[1]}}" for cell in cells) + f"   {goal}".rstrip(),
          flush=True)
