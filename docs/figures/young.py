"""The time that a job loses to saves and to repeated work, against the time between two snapshots. A save costs its time in each
interval, and a failure costs half of an interval: save / interval + interval / 2 / failure (Young 1974). Its minimum is
snapshot_interval of formulas.py."""
import math

from drawing import COMMUNICATE, COMPUTE, HOST, UPDATE, Figure
from formulas import snapshot_interval
from on_paper import SECONDS_TO_FAILURE

LEFT, RIGHT, TOP, BOTTOM = 90, 880, 40, 350
MINUTES, MOST = (1, 100), 25  # of the axis, and percent at its top
FAILURE = SECONDS_TO_FAILURE / 16384
CURVES = ((80, COMMUNICATE), (20, COMPUTE), (5, UPDATE))


def lost(save, interval):
    return 100 * (save / interval + interval / 2 / FAILURE)


def x(minutes):
    return LEFT + (RIGHT - LEFT) * math.log(minutes / MINUTES[0]) / math.log(MINUTES[1] / MINUTES[0])


def y(percent):
    return BOTTOM - (BOTTOM - TOP) * percent / MOST


def draw():
    best = {save: snapshot_interval(save, FAILURE) for save, _ in CURVES}
    f = Figure("Lost time against the time between snapshots", f"With a failure every {FAILURE / 3600:.1f} hours. " + " ".join(
        f"If a save takes {save} s, the best interval is {best[save] / 60:.0f} minutes, and the job loses {lost(save, best[save]):.0f} %."
        for save, _ in CURVES), 420)
    for percent in range(0, MOST + 1, 5):
        f.line((LEFT, y(percent)), (RIGHT, y(percent)), colour=HOST, thick=1 if percent else 2)
        f.text(LEFT - 12, y(percent), f"{percent} %", 18, "end")
    for minutes in (1, 2, 5, 10, 20, 50, 100):
        f.text(x(minutes), BOTTOM + 22, str(minutes), 18)
    f.text((LEFT + RIGHT) / 2, BOTTOM + 52, "minutes between two snapshots (logarithmic)", 20)
    f.text(10, 14, "time of the job that is lost", 20, "start")
    for save, colour in CURVES:
        minutes = [MINUTES[0] * (MINUTES[1] / MINUTES[0]) ** (i / 40) for i in range(41)]
        shown = [(x(m), y(lost(save, 60 * m))) for m in minutes if lost(save, 60 * m) <= MOST]
        f.line(*shown, colour=colour, thick=3)
        at = best[save] / 60
        f.disc(x(at), y(lost(save, best[save])), 9, colour)
    for i, (save, colour) in enumerate(CURVES):
        f.disc(RIGHT + 40, 120 + 70 * i, 9, colour)
        f.text(RIGHT + 58, 120 + 70 * i, f"a save of {save} s:\n{best[save] / 60:.0f} minutes", 18, "start")
    return f
