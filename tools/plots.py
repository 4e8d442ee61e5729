#!/usr/bin/env python3
"""Draws what the course claims: the losses of 1, 2 and 4 ranks, images per second, memory of the sharding strategies, and
bus bandwidth. It runs steps 2, 6 and 7, and keeps what they print, or draws the kept results of a folder again."""
import argparse
import csv
import glob
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
import files  # noqa: E402
import gnuplot  # noqa: E402

LAUNCH, RANKS = "03_multigpu_launcher/launch", "--nproc-per-node 4"
PARTS = ("parameters", "gradients", "optimizer", "gathered", "activations")
# The name of the result, and the command. 120 images divide by 1, 2 and 4 ranks, and a small rate keeps rounding small.
RUNS = [(f"ranks{n}", f"02_multigpu_fork/train --nproc {n} --epochs 1 --log-every 1 --lr 1e-3 --batch 120 --hidden 256")
        for n in (1, 2, 4)]
RUNS += [(f"memory-{s}", f"{LAUNCH} {RANKS} 07_large_models/train --strategy {s} --optimizer adam --max-steps 2 "
          "--hidden 512,512,512,512,512,512 --batch 512") for s in ("none", "grad", "full")]
RUNS += [("sizes", "06_allreduce_demo/allreduce --nproc 2 --max-bytes 16M --iters 10")]
LOSSES = 200  # training steps in the picture


class Failed(Exception):
    """A line for the user."""


def run_all(options, folder):
    environment = {"CPU_DEVICES": "4", "NCCL_SOCKET_IFNAME": "lo", **os.environ}
    files.make_folder(folder)
    for name, command in RUNS:
        print(f"{command} ...", flush=True)
        words = [f"{options.build}/{w}" if re.match(r"0\d_", w) else w for w in command.split()]
        if "train" in command:
            words += options.train
        if name.startswith("ranks"):
            words += ["--csv", f"{folder}/{name}.csv"]
        try:
            done = subprocess.run(words, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  check=False)
        except OSError as error:
            raise Failed(f"error: {words[0]}: {error.strerror}; make plots builds it") from None
        if done.returncode:
            raise Failed((re.findall(r"error.*", done.stdout) or [f"error: {command} failed"])[0])
        files.write(f"{folder}/{name}.txt", done.stdout)


def read(folder, name):
    try:
        with open(f"{folder}/{name}", encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise Failed(f"error: {folder}/{name}: {error.strerror}; make plots without RUNS= makes it") from None


def found(folder, pattern):
    """The middle parts of the names in the folder that match, such as 2 for ranks*.csv and ranks2.csv, in order."""
    before, after = pattern.split("*")
    names = [os.path.basename(path)[len(before):-len(after)] for path in glob.glob(f"{folder}/{pattern}")]
    return sorted(names, key=lambda name: (len(name), name))


def device(text):
    """The machine, and whether its times are modelled."""
    match = re.search(r"^device +\d+: (.*)", text, re.M)
    name = match[1] if match else "unknown device"
    return ("Modelled" if "modelled" in name else "Measured") + f": {name}"


def heading(title, machine, name):
    """A title, and below it the machine and the command."""
    command = dict(RUNS).get(name, "").replace("--nproc 1 ", "--nproc N ").replace("--strategy none", "--strategy S")
    return f"""set label 99 {gnuplot.quoted(title)} at screen 0.5,0.96 center
set label 100 {gnuplot.quoted(machine)} at screen 0.5,0.905 center font ',11'
set label 101 {gnuplot.quoted(command)} at screen 0.5,0.87 center font ',10'
set tmargin at screen 0.83
"""


def losses(folder, out):
    ranks, curves = found(folder, "ranks*.csv"), {}
    for n in ranks:
        rows = csv.DictReader(read(folder, f"ranks{n}.csv").splitlines())
        curves[n] = {int(r["step"]): float(r["loss"]) for r in rows if r["loss"]}
    first = curves[ranks[0]]
    script = ""
    for n in ranks:
        points = [(s, loss, (loss - first[s]) / first[s]) for s, loss in curves[n].items() if s <= LOSSES and s in first]
        script += gnuplot.data(f"r{n}", points)
    names = {n: f"{n} rank{'s' if n != '1' else ''}" for n in ranks}
    script += heading("Loss of each training step: the curves lie on top of each other", device(read(folder, "ranks1.txt")),
                      "ranks1")
    script += """set multiplot
set lmargin at screen 0.13
set rmargin at screen 0.97
set bmargin at screen 0.46
set ylabel 'loss'
set format x ''
plot """ + ", ".join(f"$r{n} using 1:2 with lines {gnuplot.line(i)} title '{names[n]}'" for i, n in enumerate(ranks))
    script += f"""
unset label 100
unset label 101
unset label 99
set tmargin at screen 0.40
set bmargin at screen 0.13
set format x '%g'
set format y '%.0e'
set xlabel 'training step'
set ylabel {gnuplot.quoted('relative difference to ' + names[ranks[0]])} font ',11'
unset key
plot """ + ", ".join(f"$r{n} using 1:3 with lines {gnuplot.line(i)}" for i, n in enumerate(ranks))
    gnuplot.draw(f"{out}/losses", script + "\nunset multiplot\n", height=640)


def speed(folder, out):
    ranks = found(folder, "ranks*.txt")
    rates = {}
    for n in ranks:
        line = re.findall(r"^epoch .* s  (\d+) images/s", read(folder, f"ranks{n}.txt"), re.M)
        if not line:
            raise Failed(f"error: {folder}/ranks{n}.txt has no line of an epoch with images/s")
        rates[n] = int(line[-1])
    base = rates[ranks[0]] / int(ranks[0])
    script = gnuplot.data("rates", ((n, rates[n], 100 * rates[n] / base / int(n), base * int(n)) for n in ranks))
    script += heading("Images per second and efficiency", device(read(folder, f"ranks{ranks[0]}.txt")), "ranks1")
    script += f"""set xlabel 'ranks'
set xtics ({", ".join(ranks)})
set ylabel 'images per second'
set yrange [0:*]
set y2label 'efficiency in per cent of one rank'
set y2range [0:110]
set y2tics
set border 11
set bmargin 5.5
set key at screen 0.5,0.04 center horizontal maxrows 1
set rmargin 9
plot $rates using 1:4 with lines linecolor rgb '#808080' linewidth 2 dashtype 2 title 'ideal', \
$rates using 1:2 with linespoints {gnuplot.style(0)} title 'images per second', \
$rates using 1:3 axes x1y2 with linespoints {gnuplot.style(1)} title 'efficiency (right)'
"""
    gnuplot.draw(f"{out}/speed", script)


def memory(folder, out):
    rows, strategies = [], found(folder, "memory-*.txt")
    strategies.sort(key=lambda name: ("none grad hybrid full".find(name), name))
    for name in strategies:
        text = read(folder, f"memory-{name}.txt")
        costs = {kind: (int(a), int(b)) for kind, a, b in re.findall(r"^  (\w+) +(\d+) +(\d+) ", text, re.M)}
        for i, which in enumerate(("measured", "computed")):
            rows.append([f'"{name}\\n{which}"', *(costs[kind][i] / 1e6 for kind in PARTS)])
    script = gnuplot.data("memory", rows)
    script += heading("Memory of a rank", device(read(folder, f"memory-{strategies[0]}.txt")), "memory-none")
    script += """set style data histograms
set style histogram rowstacked
set style fill solid 0.85 border rgb 'white'
set boxwidth 0.75
set ylabel 'MB'
set yrange [0:*]
set xtics font ',13'
set bmargin 4
set key outside right reverse Left
plot """ + ", ".join(f"$memory using {i + 2}:xtic(1) linecolor rgb '{gnuplot.COLOURS[i]}' title '{kind}'"
                     for i, kind in enumerate(PARTS))
    gnuplot.draw(f"{out}/memory", script)


def sizes(folder, out):
    text = read(folder, "sizes.txt")
    rows = [line.split() for line in text.splitlines() if re.match(r"allreduce +\d+ +\d+ +float ", line)]
    if not rows:
        raise Failed(f"error: {folder}/sizes.txt has no line of an all-reduce")
    script = gnuplot.data("sizes", ((r[1], r[8], r[12]) for r in rows))
    script += heading("Bus bandwidth of an all-reduce", device(text), "sizes") + f"""set logscale x 2
set format x '%.0b%B'
set xtics 16
set xlabel 'message in bytes'
set ylabel 'GB/s'
set yrange [0:*]
set key top left
plot $sizes using 1:2 with linespoints {gnuplot.style(0)} title 'out of place', \
$sizes using 1:3 with linespoints {gnuplot.style(1)} title 'in place'
"""
    gnuplot.draw(f"{out}/sizes", script)


def main():
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--runs", help="folder of kept results, such as build/plots/runs")
    parser.add_argument("--out", default="build/plots", help="folder of the pictures (%(default)s)")
    parser.add_argument("--build", default="build/cpu", help="folder of the programs (%(default)s)")
    options, options.train = parser.parse_known_args()
    if gnuplot.missing():
        raise Failed(f"error: {gnuplot.missing()}")
    folder = options.runs or f"{options.out}/runs"
    if not options.runs:
        run_all(options, folder)
    files.make_folder(options.out)
    for needed, draw in (("ranks*.csv", losses), ("ranks*.txt", speed), ("memory-*.txt", memory), ("sizes*.txt", sizes)):
        if not found(folder, needed):
            raise Failed(f"error: {folder} has no {needed}; make plots without RUNS= makes it")
        draw(folder, options.out)
    print("drawn: " + ", ".join(f"{options.out}/{name}.svg" for name in ("losses", "speed", "memory", "sizes")) + ", and .png")


if __name__ == "__main__":
    try:
        main()
    except Failed as failed:
        sys.exit(str(failed))
