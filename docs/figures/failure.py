"""What two ranks did when rank 1 was killed, or when it froze, measured on the CPU device. failure.txt and failure-frozen.txt hold
what the commands below the figures in docs/slides/3-many-nodes.md print."""
import re

from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure

LEFT, RIGHT, HEIGHT = 130, 1090, 60


def events_of(text):
    """What happened, and after how many seconds."""
    found = [(int(ms), words) for ms, words in re.findall(r"^(\d+) ms (.*)$", text, re.M)]
    return [((ms - found[0][0]) / 1000, words) for ms, words in found]


def timeline(f, seconds, bottom):
    """The axis of the time. Returns the place of a second on it."""
    scale = (RIGHT - LEFT) / seconds
    f.line((LEFT, bottom), (RIGHT, bottom), colour=HOST)
    for second in range(int(seconds) + 1):
        f.line((LEFT + second * scale, bottom), (LEFT + second * scale, bottom + 8), colour=HOST)
        f.text(LEFT + second * scale, bottom + 24, f"{second} s" if second == 0 else str(second), 18)
    return lambda second: LEFT + second * scale


def work(f, x, row, name, spans):
    """The row of a rank. spans: (begin, end, colour, text)."""
    f.text(LEFT - 14, row + HEIGHT / 2, name, 20, "end", bold=True)
    for begin, end, colour, text in spans:
        f.box(x(begin), row, x(end) - x(begin), HEIGHT, text if x(end) - x(begin) > 9 * len(text) else "", colour,
              size=18, solid=colour is not HOST)


def draw(text):
    (start, _), (train, _), (saved, _), (died, _), (again, _), _, _, (resumed, _), (end, _) = events_of(text)
    f = Figure("A rank is killed, and the launcher starts all ranks again", f"Measured. The ranks train after {train:.1f} s and save a "
               f"snapshot after {saved:.1f} s. Rank 1 is killed after {died:.1f} s. The launcher starts all ranks again after {again:.1f} s. "
               f"They continue from the snapshot after {resumed:.1f} s, and end after {end:.1f} s.", 340)
    x = timeline(f, end, 264)
    for name, row, stop in (("rank 0", 86, again), ("rank 1", 166, died)):
        work(f, x, row, name, [(start, train, HOST, "start"), (train, saved, COMPUTE, "train"), (saved, died, COMMUNICATE, "lost"),
                               (died, stop, HOST, ""), (again, resumed, HOST, "start again"), (resumed, end, COMPUTE, "train on")])
        f.area(x(saved) - 5, row - 8, 10, HEIGHT + 16, UPDATE.line)
        f.area(x(resumed) - 5, row - 8, 10, HEIGHT + 16, UPDATE.line)
    f.cross(x(died), 196, 14)
    f.text(x(saved), 62, "snapshot saved", 18, "end")
    f.text(x(resumed), 62, "and read", 18)
    f.text(x(died) + 16, 242, "rank 1 is killed", 18, "start")
    f.brace(x(saved), x(resumed), 50, f"{resumed - saved:.1f} s lost", up=True, size=20, bold=True)
    f.text(RIGHT, 318, "seconds, measured", 18, "end")
    return f


def freeze(text):
    (start, _), (train, _), (frozen, _), (noticed, _), _, (killed, _) = events_of(text)
    f = Figure("A rank freezes, and the watchdog of the other one notices", f"Measured. Rank 1 freezes after {frozen:.1f} s. Rank 0 waits "
               f"in a sum, until its watchdog ends it after {noticed:.1f} s. Then the launcher ends rank 1.", 310)
    x = timeline(f, killed, 240)
    work(f, x, 70, "rank 0", [(start, train, HOST, "start"), (train, frozen, COMPUTE, "train"),
                              (frozen, noticed, COMMUNICATE, "waits in a sum")])
    work(f, x, 150, "rank 1", [(start, train, HOST, "start"), (train, frozen, COMPUTE, "train"),
                               (frozen, killed, HOST, "frozen: no error, no end")])
    f.text(x(frozen), 48, "rank 1 freezes", 18)
    f.text(x(noticed), 24, f"the watchdog of rank 0 notices: {noticed - frozen:.1f} s", 20, "end", bold=True)
    f.text(RIGHT, 296, "seconds, measured", 18, "end")
    return f


pictures = {"frozen": freeze}
