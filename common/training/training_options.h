// The options of all training programs. A new option needs a member of this struct, and a row in
// the table in training_options.c.
#pragma once
#include "common/base/options.h"

extern struct training_options {
    const char *data, *model, *hidden, *optimizer, *snapshot, *csv;
    long epochs, max_steps, batch, tf32, seed, log_every, save_every, load, workers;
    double lr, momentum, weight_decay, label_smoothing, save_minutes;
} opt; // options_parse sets it

extern const struct option_spec training_options[];
