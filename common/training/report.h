// Prints the progress of training and one line per epoch, and writes the same numbers as CSV.
#pragma once
#include "common/base/say.h"
#include "common/kernels/kernels.h"

// Prints the first lines of a run: the device, the model, the data, options without effect, and how
// it trains.
struct model;
struct dataset;
struct optimizer;
void report_run(const struct model *model, const struct dataset *train, const struct dataset *test,
                const struct optimizer *optimizer);

// Call it before training starts, or before it continues after done steps. An epoch has this number
// of steps. The CSV file at path (NULL: none) is overwritten if done is 0, and continued otherwise.
void report_open(const char *path, long done, long steps);

// Call report_due after every step. It returns 1 (never with a modelled clock) if pace steps have
// been done since the last report, or at least one. Then wait until the device has done all queued
// steps, and call report_progress, which prints a line only every 30 s. report_pace returns the
// pace at which a second passes from one report to the next.
int report_due(long done, double pace);
double report_pace(void);
void report_progress(long done);

// Prints the progress with the mean loss since the last call, and adds both to the CSV file, with
// the learning rate of the last step.
void report_loss(long done, double loss, double lr);

// Prints the line of an epoch, in a format that is easy to grep:
// epoch 2/5  loss 0.0812  test loss 0.0790  accuracy 97.41%  1.23 s  48781 images/s
// For a text, it counts tokens per second, and adds the perplexity, exp(test loss), here and to the
// CSV file. The accuracy is the share of next tokens that the model predicts correctly.
void report_epoch(long epoch, long total, struct stats train, struct stats test, double elapsed,
                  double samples_per_second);

// Call it when training ends within an epoch.
void report_stop(long done);

// Call it when training has ended, after the last save. told_to_stop 1: by a signal.
void report_finish(int told_to_stop);
