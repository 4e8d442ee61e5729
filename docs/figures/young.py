"""The time that a job loses to saves and to repeated work, against the time between two snapshots. A save costs its time in each
interval, and a failure costs half of an interval: save / interval + interval / 2 / failure (Young 1974). Its minimum is
snapshot_interval of formulas.py."""
from drawing import COMMUNICATE, COMPUTE, UPDATE, Axes, Figure, log_scale
from formulas import snapshot_interval
from on_paper import SECONDS_TO_FAILURE

LEFT, RIGHT, TOP, BOTTOM = 90, 880, 52, 350
MINUTES, MOST = (1, 100), 25  # of the axis, and percent at its top
FAILURE = SECONDS_TO_FAILURE / 16384
CURVES = ((80, COMMUNICATE), (20, COMPUTE), (5, UPDATE))


def lost(save, interval):
    return 100 * (save / interval + interval / 2 / FAILURE)


def draw():
    x = log_scale(*MINUTES, LEFT, RIGHT)
    best = {save: snapshot_interval(save, FAILURE) for save, _ in CURVES}
    f = Figure("Lost time against the time between snapshots", f"With a failure every {FAILURE / 3600:.1f} hours. " + " ".join(
        f"If a save takes {save} s, the best interval is {best[save] / 60:.0f} minutes, and the job loses {lost(save, best[save]):.0f} %."
        for save, _ in CURVES), 420)
    axes = Axes(f, LEFT, TOP, RIGHT - LEFT, BOTTOM - TOP, (1, 2, 5, 10, 20, 50, 100), MOST, 5,
                ("minutes between two snapshots (logarithmic)", "time of the job that is lost, in percent"), x)
    for save, colour in CURVES:
        minutes = [MINUTES[0] * (MINUTES[1] / MINUTES[0]) ** (i / 40) for i in range(41)]
        shown = [(x(m), axes.y(lost(save, 60 * m))) for m in minutes if lost(save, 60 * m) <= MOST]
        f.line(*shown, colour=colour, thick=3)
        at = best[save] / 60
        f.disc(x(at), axes.y(lost(save, best[save])), 9, colour)
    for i, (save, colour) in enumerate(CURVES):
        f.disc(RIGHT + 40, 120 + 70 * i, 9, colour)
        f.text(RIGHT + 58, 120 + 70 * i, f"a save of {save} s:\n{best[save] / 60:.0f} minutes", 18, "start")
    return f
