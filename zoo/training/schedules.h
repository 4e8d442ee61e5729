// Schedules: how the learning rate changes during training, as in torch.optim.lr_scheduler. The
// rate depends only on the number of the training step, so a continued run needs no state of a
// schedule. A new schedule needs a new row in the table in schedules.c.
#pragma once
#include "common/base/error.h"

struct schedule {
    // The factor of --lr for the next training step, if this many are done.
    double (*factor)(const struct schedule *schedule, long done);
    long steps, steps_per_epoch; // of all epochs together, and of one
    long warmup, step_epochs;    // of the options
    double gamma;
    char text[144]; // for the banner, such as " (times 0.7 after each epoch)", or ""
};

// Builds the schedule that the options name, for epochs of steps_per_epoch training steps. A
// schedule spans all --epochs. --max-steps does not shorten it, so a run that stops there and is
// continued has the rates of a run that did not stop. lr is for the text. Returns 0, or -1 with the
// reason in why.
struct training_options;
int schedule_build(struct schedule *schedule, const struct training_options *options,
                   long steps_per_epoch, double lr, char why[WHY_SIZE]);

// Returns the factor of --lr in training step number step, from 1. After the last step of the
// schedule, it is that of the last step.
double schedule_factor(const struct schedule *schedule, long step);

// Returns the name of schedule number i in the table, or NULL after the last one.
const char *schedule_name(int i);
