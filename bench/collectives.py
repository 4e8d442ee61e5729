"""collectives.py BUILD [--rounds N]: float sum all-reduce of the CPU device between processes, compared with Open
MPI's, as a table."""
import os
import re
import shutil
import sys

from bench import compiler, machine, option, ratio, run, show, spread

ROUNDS = int(option("--rounds", 5))
GOALS = {  # bytes: goal for 2 ranks
    1024: "ours at most 30 us",
    1 << 20: "faster than MPI",
    2678824: "ours at most 500 us; the same",
    4 << 20: "the same",
    16 << 20: "the same",
    64 << 20: "ours at most 20000 us; the same"}
WIDTHS = 9, 22
build = sys.argv[1]
ours, mpi = (f"{build}/bench/{name}" for name in ("collectives", "mpi_allreduce"))
mpirun = shutil.which("mpirun.openmpi") or "mpirun"  # where MPICH is installed, too, mpirun may be MPICH's
has_mpi = bool(shutil.which(mpirun)) and os.path.exists(mpi)


def measure(*command, **variables):
    """Microseconds by size in bytes."""
    output = run(*command, **variables)
    return {int(size): float(time) for size, time in re.findall(r"^(\d+) ([\d.]+)$", output, re.M)}


def table(ranks, goals):
    # mpirun pins two processes to cores unless told not to; nobody else here is pinned.
    start = mpirun, "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-n", ranks, mpi
    rounds = [(measure(ours, ranks, CPU_DEVICES=str(ranks)),
               measure(*start) if has_mpi else {}) for _ in range(ROUNDS)]
    print(f"\n{ranks} ranks, microseconds: median (lowest-highest) of {ROUNDS} alternating runs; ratios:\n"
          "median of the rounds (of the best runs, which other work disturbed least)")
    show("bytes", ["ours", "Open MPI", "Open MPI / ours"], "goal", WIDTHS)
    for size in rounds[0][0]:
        columns = [[r[i][size] for r in rounds if r[i]] for i in range(2)]
        times = [spread(column, 1 if min(column) < 100 else 0) if column else "-" for column in columns]
        gain = ratio(columns[1], columns[0], min) if has_mpi else "-"
        show(size, [*times, gain], goals.get(size, ""), WIDTHS)


os.environ["NCCL_SOCKET_IFNAME"] = "lo"
os.environ["OMP_NUM_THREADS"] = "1"
version = run(mpirun, "--version").splitlines()[0] if has_mpi else "no mpicc with headers here: its column stays empty"
print(f"machine   {machine()}")
print(f"compiler  {compiler(ours)}")
print(f"MPI       {version}")
print("ranks     a process with one thread each, not pinned; NCCL_SOCKET_IFNAME lo")
print("operation float sum all-reduce in place, several (20 up to 4 MiB) and then a wait", flush=True)
table(2, GOALS)
table(4, {1 << 20: "ours below 1000 us on 2 cores"})
