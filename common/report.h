// What a program says while it trains: progress, one line per epoch, and the same as CSV.
#pragma once
#include "kernels.h"

// Like printf, but prints nothing where report_muted is set; nor does any function below. stdout
// stays open for the logs of libraries.
extern int report_muted;
__attribute__((format(printf, 1, 2))) void say(const char *format, ...);

// Seconds on a clock that never jumps.
double seconds(void);

// Is stdout the terminal that somebody sits at? There progress is a bar that is redrawn in place,
// elsewhere plain lines.
int report_on_terminal(void);

// Call it before training begins, or goes on after done steps. Training has so many epochs, of so
// many steps each, of batch samples each, and ends after at most that many steps (0: no limit).
// Adds lines to the CSV file at path (NULL: none); training that begins makes the file anew.
void report_open(const char *path, long done, long epochs, long steps, long most, long batch);

// Call it after every step. Returns 1 about once a second: then wait for the device, so that it has
// done all steps that the host has queued, and call report_progress. It prints a line in a log only
// if the last one is 30 s old.
int report_due(long done);
void report_progress(long done);

// Progress with the mean loss since the last call, which the CSV file gets, too.
void report_loss(long done, double loss);

// The line that people grep for:
// epoch 2/5  loss 0.0812  test loss 0.0790  accuracy 97.41%  1.23 s  48781 images/s
void report_epoch(long epoch, long epochs, long total, struct stats train, struct stats test,
                  double elapsed, double images_per_second);

// Training ends within an epoch.
void report_stop(long done);

// Ends the line of the bar, if there is one, as another line is about to follow.
void report_end_bar(void);

// For the beginning of a line on stderr: on a terminal it erases the bar that another process may
// have left there, elsewhere it is empty.
const char *report_clear_bar(void);
