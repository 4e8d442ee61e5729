// Schedules: how the learning rate changes during training, as in torch.optim.lr_scheduler. The
// rate depends only on the number of the training step, so a continued run needs no state of a
// schedule. A new schedule needs a new row in the table in schedules.c.
#pragma once
#include "common/training/optimizer.h"

// Checks --schedule and its options for this optimizer, and writes a text for the banner, such as
// " (times 0.7 after each epoch)", or "". A schedule spans all --epochs. --max-steps does not
// shorten it, so a run that stops there and is continued has the rates of a run that did not stop.
// Returns 0, or -1 with the reason in why.
enum { SCHEDULE_TEXT = 144 };
int schedule_check(const struct optimizer *o, char text[SCHEDULE_TEXT], char why[WHY_SIZE]);

// Returns the factor of --lr in training step number step, from 1. After the last step of the
// schedule, it is that of the last step.
double schedule_factor(const struct optimizer *o, long step);

// Returns the name of schedule number i in the table, or NULL after the last one.
const char *schedule_name(int i);
