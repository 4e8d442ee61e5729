#include "watch/phases.h"
#include "common/base/say.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

// Communication comes after all phases that compute. In each of the two groups, the order is that
// of the times.
static int compare(const void *a, const void *b) {
    const struct interval *x = a, *y = b;
    int x_late = x->phase == PHASE_COMMUNICATION, y_late = y->phase == PHASE_COMMUNICATION;
    if (x_late != y_late)
        return x_late - y_late;
    return (x->begin > y->begin) - (x->begin < y->begin);
}

// Returns how much of the time from begin to end lies in the sorted intervals. *first is the first
// interval that may reach it; the next call, with a later begin, continues there.
static double covered(const struct interval *intervals, size_t count, size_t *first, double begin,
                      double end) {
    double sum = 0;
    while (*first < count && intervals[*first].end <= begin)
        ++*first;
    for (size_t i = *first; i < count && intervals[i].begin < end; i++)
        sum += fmin(end, intervals[i].end) - fmax(begin, intervals[i].begin);
    return sum;
}

void phases_add(struct phases *sums, struct interval *intervals, size_t count, double length,
                int reported) {
    double worked = 0, busy = 0, known = 0; // worked: when the update ends
    size_t computing = 0, first = 0;
    qsort(intervals, count, sizeof *intervals, compare);
    for (; computing < count && intervals[computing].phase != PHASE_COMMUNICATION; computing++) {
        const struct interval *i = &intervals[computing];
        sums->ms[i->phase] += i->end - i->begin;
        busy += i->end - i->begin;
        worked = fmax(worked, i->end);
    }
    for (size_t i = computing; i < count; i++) { // known: communication up to here is in the sums
        double begin = fmax(intervals[i].begin, known), end = fmin(intervals[i].end, worked);
        if (begin >= end)
            continue;
        double hidden = covered(intervals, computing, &first, begin, end);
        sums->hidden += hidden;
        sums->ms[PHASE_COMMUNICATION] += end - begin - hidden;
        busy += end - begin - hidden;
        known = end;
    }
    double report = reported ? length - worked : 0;
    sums->report += report;
    sums->idle += length - busy - report;
    sums->step += length;
    sums->steps++;
}

enum { COLUMNS = PHASES + 4 };
static const char *const titles[COLUMNS] = {"data",     "copy",   "forward", "loss",
                                            "backward", "update", "comm",    "report",
                                            "idle",     "step",   "hidden"};

static void list(const struct phases *sums, double values[COLUMNS]) {
    for (int i = 0; i < PHASES; i++)
        values[i] = sums->ms[i] / sums->steps;
    values[PHASES] = sums->report / sums->steps;
    values[PHASES + 1] = sums->idle / sums->steps;
    values[PHASES + 2] = sums->step / sums->steps;
    values[PHASES + 3] = sums->hidden / sums->steps;
}

// The columns about communication are left out if there is none, and so is that of data.
static int shown(const double values[COLUMNS], int column) {
    int communicates = values[PHASE_COMMUNICATION] + values[COLUMNS - 1] > 0;
    if (column == PHASE_DATA)
        return values[PHASE_DATA] > 0;
    return communicates || (column != PHASE_COMMUNICATION && column != COLUMNS - 1);
}

void phases_print(const struct phases *sums, int modelled) {
    double values[COLUMNS];
    char head[32];
    if (sums->steps == 0) {
        say("profile   none of these training steps was timed\n");
        return;
    }
    list(sums, values);
    snprintf(head, sizeof head, "%d step%s timed", sums->steps, PLURAL(sums->steps));
    say("profile   %-15s", head);
    for (int i = 0; i < COLUMNS; i++)
        if (shown(values, i))
            say(" %8s", titles[i]);
    say("\n          %-15s", modelled ? "modelled ms" : "ms");
    for (int i = 0; i < COLUMNS; i++)
        if (shown(values, i))
            say(" %8.*f", values[PHASES + 2] < 100 ? 3 : 1, values[i]);
    say("\n          %-15s", "share");
    for (int i = 0; i < COLUMNS; i++)
        if (shown(values, i))
            say(" %7.1f%%", 100 * values[i] / values[PHASES + 2]);
    say("\n");
}

void phases_csv_titles(char *text, size_t size, const char *prefix) {
    *text = 0;
    for (int i = 0; i < COLUMNS; i++)
        add_text(text, size, ",%s%s_ms", prefix, titles[i]);
}

void phases_csv(char *text, size_t size, const struct phases *sums) {
    double values[COLUMNS];
    list(sums, values);
    *text = 0;
    for (int i = 0; i < COLUMNS; i++)
        add_text(text, size, sums->steps ? ",%.6g" : ",", values[i]);
}
