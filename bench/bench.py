"""What compare.py needs to run programs, and to describe the machine."""
import os
import platform
import re
import statistics
import subprocess
import sys


def option(name, default):
    """The word after the name on the command line."""
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def start(*command, **variables):
    """Starts the program, with these environment variables besides ours."""
    return subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            env={**os.environ, **variables})


def finish(child):
    """Returns the output of the program. If it fails, the benchmark ends."""
    output, errors = child.communicate()
    if child.returncode:
        sys.exit(f"{errors}error: {' '.join(child.args)}: exit code {child.returncode}")
    return output


def run(*command, **variables):
    return finish(start(*command, **variables))


def machine():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = re.findall(r"model name\s*: (.*)", file.read())
    return (f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores, Linux "
            f"{platform.release()}, load {os.getloadavg()[0]:.1f} beforehand")


# The kernels of OpenBLAS for new processors, and the flags in /proc/cpuinfo of those that can run them. A processor without
# them ends a program at an illegal instruction.
KERNELS = {"Haswell": {"avx2", "fma"}, "Zen": {"avx2", "fma"},
           "SkylakeX": {"avx512f", "avx512bw", "avx512dq", "avx512vl"}, "Cooperlake": {"avx512_bf16", "avx512vl"},
           "SapphireRapids": {"avx512_fp16", "amx_tile"}}


def processor_flags():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return set(" ".join(re.findall(r"^flags\s*: (.*)", file.read(), re.M)[:1]).split())


def fastest_kernels(flags, multiply):
    """OpenBLAS takes kernels of 2004 on processors that it does not know. multiply(NAME) multiplies large matrices with
    OPENBLAS_CORETYPE=NAME, or with the library's own choice for None. It returns the name of the kernels that OpenBLAS took,
    or None for another library, and GFLOP/s. Returns the name of the fastest kernels, or None if there is no choice, and a
    sentence about them."""
    own, rate = multiply(None)
    able = [name for name, needed in KERNELS.items() if needed <= flags]
    if own is None or not able:
        return None, f"{own or 'its own library'}, {rate:.0f} GFLOP/s"
    tried = {name: multiply(name) for name in able}
    rates = {name: fast for name, (took, fast) in tried.items() if took and took.lower() == name.lower()}
    if not rates:
        sys.exit(f"error: OpenBLAS takes its kernels for {own}, and not those that this processor can run "
                 f"({', '.join(able)}), so a comparison would be unfair: use another version of OpenBLAS")
    best = max(rates, key=rates.get)
    return best, (f"OpenBLAS for {best}, {rates[best]:.0f} GFLOP/s, the fastest of {', '.join(rates)} "
                  f"(its own choice is {own}, {rate:.0f} GFLOP/s)")


def compiler(program):
    with open(program, "rb") as file:
        found = re.search(rb"GCC: \([^)]*\) [\d.]+|clang version [\d.]+", file.read())
    return found[0].decode() if found else "unknown"


def judged(goal, value):
    """The goal, such as "at least 1.3" or "at most 1.4", which names a value that misses it."""
    if goal and (value < float(goal.split()[2])) == goal.startswith("at least"):
        return goal + ", missed"
    return goal


def spread(values, digits=0):
    """The median, and the lowest and highest."""
    middle, low, high = (f"{value:.{digits}f}" for value in (statistics.median(values), min(values), max(values)))
    return f"{middle} ({low}-{high})"
