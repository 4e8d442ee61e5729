#!/usr/bin/env python3
"""Runs the commands whose output a text quotes, and refreshes the quotes. A quote is a fenced block with the word output
after its first fence. The fenced block before it holds the commands; a comment such as <!-- runs COMMAND --> above the
quote takes its place where a reader need not see them. A comment such as <!-- draws speedup#weak --> above the commands
says that docs/figures/speedup-weak.txt holds their output, from which docs/figures/speedup.py draws this chart. A quote
holds all lines that the commands print. Three dots in a line of their own stand for any lines. A quote without lines of
the launcher, or of what make builds, leaves them out.

What the modelled clock computes is the same on every machine, and must agree in every character. Other output agrees if
it has the same words; times, rates, memory and the name of the machine may have other values, a loss may differ by 0.01,
or by 0.1 % if it has more than four decimals, and an accuracy by half a percent. Rounding differs from processor to
processor, and grows in long runs. A quote that still agrees stays as it is. The commands run in a copy of the folders of
the steps, so that their files do not stay here. Texts that quote the same commands share one run. A text with measured times is refused while other programs use the cores.
FILE... are the texts (by default all but those of the exercises, whose commands need a work folder)."""
import argparse
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True  # no __pycache__ in the folder of the tools
sys.path.insert(1, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # tools/
import files  # noqa: E402
from render import ROOT, texts  # noqa: E402

FIGURES = os.path.join(ROOT, "docs", "figures")

# Numbers that differ in each run or on each machine: sizes of memory, the processes' numbers and, unless they are modelled, times
# and rates.
TIMES = re.compile(r"\d[\d.]* (s|ms|us|images/s|[MG]B/s)\b")
VARYING = [
    (re.compile(r"^(device +\d+: ).*"), r"\1..."),
    (re.compile(r"^(note: OpenBLAS ).*"), r"\1..."),
    (re.compile(r"\d+:\d\d:\d\d left"), "# left"),
    (re.compile(r"\b(pid|port) \d+"), r"\1 #"),
    (re.compile(r"\bstep \d+, collective \d+"), "step #, collective #"),  # how far a CPU was ahead of its GPU
    (re.compile(r"^(resumed +\S+:) .* are done$"), r"\1 # are done"),  # how far a run came until it was killed
    (re.compile(r" +"), " "),
]
MEASURED_ROW = re.compile(r"^ *(allreduce|gather\+bcast|ring|rs\+ag) .*")  # of step 6, without units; not if it is modelled
MODELLED = re.compile(r"^profile |\bmodelled\b|CPU_DEVICE_MODEL=")  # in output, or in commands
NOTES = re.compile(r"launch: |  build/")
BUSY = 0.05  # the share of the cores' time from which on other programs change measured times
NUMBER = re.compile(r"\d+(?:\.\d+)?%?")


class Quote:
    """Lines first to last of a text are the output that it quotes; commands is the text for the shell. figure: the name of
    the chart whose table holds the output; the text then has no such lines."""

    def __init__(self, commands, first, last, figure=None):
        self.commands, self.first, self.last, self.figure = commands, first, last, figure

    def lines_in(self, lines):
        """The quoted lines of the text with these lines, or those of the table. A new chart has no table yet."""
        if not self.figure:
            return lines[self.first:self.last]
        if not os.path.exists(self.table()):
            return []
        with open(self.table(), encoding="utf-8") as file:
            return file.read().splitlines()

    def table(self):
        return os.path.join(FIGURES, self.figure.replace("#", "-") + ".txt")


def quotes_of(lines):
    """The quotes of a text, and the number of the line of each quote without commands."""
    found, lost, commands, figure, at = [], [], None, None, 0
    while at < len(lines):
        line = lines[at].strip()
        runs = re.fullmatch(r"<!-- runs (.*) -->", line)
        if runs:
            commands = runs[1] + "\n"
        draws = re.fullmatch(r"<!-- draws (.*) -->", line)
        if draws:
            figure = draws[1]
        if not line.startswith("```"):
            at += 1
            continue
        end = next((i for i in range(at + 1, len(lines)) if lines[i].strip() == "```"), len(lines))
        if line == "```output":
            if commands is None:
                lost.append(at + 1)
            else:
                found.append(Quote(commands, at + 1, end))
            commands = None
        else:
            commands = "\n".join(lines[at + 1:end]) + "\n"
            if figure:
                found.append(Quote(commands, at + 1, at + 1, figure))
            figure = None
        at = end + 1
    return found, lost


def shape(line, exact=False):
    if not exact:
        line = MEASURED_ROW.sub(lambda row: re.sub(r"\d+\.\d+", "#", row[0]), line)
        line = TIMES.sub(r"# \1", line)
    for pattern, replacement in VARYING:
        line = pattern.sub(replacement, line)
    return line


def is_dots(line):
    return line.strip() == "..."


def agrees(quoted, printed, exact):
    if quoted == printed or MODELLED.search(quoted) or MODELLED.search(printed):
        return quoted == printed
    a, b = shape(quoted, exact), shape(printed, exact)
    if exact or NUMBER.sub("#", a) != NUMBER.sub("#", b):
        return a == b
    return all(close(x, y) for x, y in zip(NUMBER.findall(a), NUMBER.findall(b)))


def close(x, y):
    if x.endswith("%"):
        return abs(float(x[:-1]) - float(y[:-1])) <= 0.5
    if "." in x and "." in y:
        compared = len(x.partition(".")[2]) > 4  # so many digits are there to be compared with those of another run
        return abs(float(x) - float(y)) <= (1e-3 * float(x) if compared else 0.01)
    return x == y


def is_exact(commands, quoted):
    return any(MODELLED.search(line) for line in [commands] + quoted)


def is_timed(commands, quoted):
    """Whether recording the quote anew may change its times. Those of the modelled clock are the same on all machines."""
    return not is_exact(commands, quoted) and any(shape(line) != re.sub(r" +", " ", line) for line in quoted)


def core_times():
    """The time that all cores together were busy, and all their time, in ticks. Work of another virtual machine on these
    cores (steal) counts as busy."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def need_idle_cores(name):
    """Ends the program if other programs use the cores. The load average would count the commands of the last quotes, too."""
    before = core_times()
    time.sleep(2)
    busy, whole = (after - first for first, after in zip(before, core_times()))
    if busy > BUSY * whole:
        sys.exit(f"error: other programs use {busy / whole:.0%} of the cores, so the times in {name} would be wrong: try again "
                 f"when they have ended, or add --busy (make record ARGS=\"--busy {name}\")")


def matches(quoted, printed, same):
    """The printed lines that the quoted lines stand for, and the lines of dots between them. A ValueError says what
    differs. same: a function that compares two lines."""
    result, at, skipping = [], 0, False
    for line in quoted:
        if is_dots(line):
            result.append(line)
            skipping = True
            continue
        found = next((i for i in range(at, len(printed)) if same(line, printed[i])), None)
        if found is None:
            raise ValueError(f"quotes a line that is not printed:\n{line}")
        if found > at and not skipping:
            break
        result.append(printed[found])
        at, skipping = found + 1, False
    if at < len(printed) and not skipping:
        raise ValueError(f"leaves out a line; write a line of three dots in its place:\n{printed[at]}")
    return result


def difference(quoted, printed, exact):
    """Says how the quoted lines differ from the printed ones, or None."""
    try:
        matches(quoted, printed, lambda a, b: agrees(a, b, exact))
    except ValueError as error:
        return str(error)
    return None


def same_words(a, b):
    return NUMBER.sub("#", shape(a)) == NUMBER.sub("#", shape(b))


def refreshed(quoted, printed, exact):
    """The quoted lines as they are printed now: those that agree, or else those of the same words. If the quote has other
    lines, all that is printed, or None if it has lines of dots."""
    for same in (lambda a, b: agrees(a, b, exact)), same_words:
        try:
            return matches(quoted, printed, same)
        except ValueError:
            pass
    return None if any(is_dots(line) for line in quoted) else printed


def copy_of_steps(folder, programs):
    """Links to all that commands use. The folders of the steps are new ones, so that commands can build and write there.
    The programs are those in that folder. Other files of the root may be results of the reader, so commands must not find them."""
    for name in os.listdir(ROOT):
        if name in (".git", "work") or os.path.isfile(os.path.join(ROOT, name)) and name != "Makefile":
            continue
        if not re.match(r"0\d_", name):
            os.symlink(os.path.join(ROOT, name), os.path.join(folder, name))
            continue
        for place, _, files in os.walk(os.path.join(ROOT, name)):
            os.mkdir(os.path.join(folder, os.path.relpath(place, ROOT)))
            for file in files:
                if not os.path.islink(os.path.join(place, file)):
                    os.symlink(os.path.join(place, file), os.path.join(folder, os.path.relpath(place, ROOT), file))
        for program in ("train", "ladder/ladder", "launch", "doctor", "allreduce"):
            path = os.path.join(ROOT, programs, name, program)
            if os.path.exists(path):
                os.symlink(path, os.path.join(folder, name, program))


def run(commands, folder, limit, programs):
    """What the commands print, to both streams. None and a message if they fail. make uses the programs in that folder."""
    try:
        done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], cwd=folder, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=limit,
                              env={**os.environ, "NO_COLOR": "1", "DEVICE": "cpu", "MAKELEVEL": "0",
                                   "MAKEFLAGS": f" -- BUILD={programs}"})
    except subprocess.TimeoutExpired:
        return None, f"did not end in {limit} s"
    if done.returncode or not done.stdout:
        return None, f"failed with status {done.returncode}:\n{done.stdout}" if done.returncode else "print nothing"
    lines = done.stdout.replace(socket.gethostname(), "laptop").replace(folder + "/", "").splitlines()
    return [line for line in lines if not line.startswith("compiles into ")], None  # only if something is not built


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; report quotes that are out of date")
    parser.add_argument("--here", action="store_true", help="run the commands in the current folder")
    parser.add_argument("--programs", metavar="FOLDER", default="build/cpu", help="the built programs (default: build/cpu)")
    parser.add_argument("--limit", metavar="SECONDS", type=float, default=300, help="for each command (default: 300)")
    parser.add_argument("--busy", action="store_true", help="record measured times while other programs use the cores, too")
    parser.add_argument("files", nargs="*", metavar="FILE")
    options = parser.parse_args()
    count = problems = 0
    shared = {}  # what commands printed that several texts quote

    for path in options.files or [os.path.join(ROOT, text) for text in texts() if not text.startswith("exercises/")]:
        name = os.path.relpath(path, ROOT)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        lines = text.split("\n")
        quotes, lost = quotes_of(lines)
        for number in lost:
            print(f"error: {name}:{number}: no commands before this output", file=sys.stderr)
            problems += 1
        if any(is_timed(quote.commands, quote.lines_in(lines)) for quote in quotes) and \
                not (options.check or options.busy):
            need_idle_cores(name)
        folder = os.getcwd() if options.here else tempfile.mkdtemp()
        if not options.here:
            copy_of_steps(folder, options.programs)
        moved = 0  # lines that refreshed quotes have added so far
        for quote in quotes:
            quote.first += moved
            quote.last += moved
            quoted = quote.lines_in(lines)
            exact = is_exact(quote.commands, quoted)
            count += 1
            if quote.commands not in shared:
                shared[quote.commands] = run(quote.commands, folder, options.limit, options.programs)
            printed, failure = shared[quote.commands]
            if printed and not any(NOTES.match(line) for line in quoted):
                printed = [line for line in printed if not NOTES.match(line)]
            problem = f"the commands {failure}" if failure else difference(quoted, printed, exact)
            if problem is None:
                continue
            new = None if failure or options.check else refreshed(quoted, printed, exact)
            if new is None:
                print(f"error: {name}:{quote.first}: {problem}", file=sys.stderr)
                if printed:
                    print("The commands print:\n" + "\n".join(printed), file=sys.stderr)
                problems += 1
                continue
            if quote.figure:
                files.write(quote.table(), "\n".join(new) + "\n")
                print(f"recorded {os.path.relpath(quote.table(), ROOT)}: its chart follows")
                continue
            lines[quote.first:quote.last] = new
            moved += len(new) - len(quoted)
        if not options.here:
            shutil.rmtree(folder)
        if "\n".join(lines) != text:
            files.write(path, "\n".join(lines))
            print(f"recorded {name}")
    print(f"{count} quotes, {problems} problems")
    return problems > 0


if __name__ == "__main__":
    sys.exit(main())
