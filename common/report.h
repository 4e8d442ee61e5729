// What a program says while it trains: progress, one line per epoch, and the same as CSV.
#pragma once
#include "kernels.h"

// Seconds on a clock that never jumps.
double seconds(void);

// Opens the CSV file at path (NULL: none) that the calls below add lines to: anew, or at its end.
void report_open(const char *path, int append);

// Progress within an epoch: a bar redrawn in place where stdout is a terminal, else a plain line.
// total: steps of all epochs so far. loss: mean since the last call.
void report_steps(long epoch, long epochs, long step, long steps, long total, double loss);

// The line that people grep for:
// epoch 2/5  loss 0.0812  test loss 0.0790  accuracy 97.41%  1.23 s  48781 images/s
void report_epoch(long epoch, long epochs, long total, struct stats train, struct stats test,
                  double elapsed, double images_per_second);
