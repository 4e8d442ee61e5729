// Where the time of a training step goes: sums the spans of the profile (watch/profile.h)
// by phase, and prints them as a table or as columns of a CSV file. It needs no device.
#pragma once
#include "common/device/spans.h"
#include <stddef.h>

// A part of a phase. Times are in milliseconds from the beginning of the training step.
struct interval {
    enum phase phase;
    double begin, end;
};

// Sums over training steps, in milliseconds.
struct phases {
    int steps;
    // By phase, as time of the stream that computes. For communication, this is the time in which
    // nothing computes at the same time.
    double ms[PHASES];
    double hidden; // communication that runs while another phase computes
    double report; // after the update, in a training step that ends with a report
    double idle;   // the rest: gaps between the phases
    double step;   // whole training steps: the sum of ms, report and idle
};

// Adds a training step of this length. Its intervals may have any order, and the function sorts
// them. Intervals of phases that compute do not overlap each other. reported 1: the step ends with
// a report. Communication after the update then belongs to the report.
void phases_add(struct phases *sums, struct interval *intervals, size_t count, double length,
                int reported);

// Prints the means: a line of titles, a line of milliseconds, and a line of shares. A model's times
// are called modelled.
void phases_print(const struct phases *sums, int modelled);

// Write the titles or the means as columns of a CSV file, each with a comma in front of it. prefix
// comes before each title. Without any training steps, the columns are empty.
void phases_csv_titles(char *text, size_t size, const char *prefix);
void phases_csv(char *text, size_t size, const struct phases *sums);
