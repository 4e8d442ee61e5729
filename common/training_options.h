// The options of all training programs. A new option needs a member of this struct, and a row in
// the table in training_options.c.
#pragma once
#include "common/options.h"

extern struct training_options {
    const char *data, *model, *hidden, *optimizer, *schedule, *snapshot, *csv;
    long epochs, max_steps, batch, tf32, seed, log_every, save_every;
    double dropout, lr, momentum, weight_decay;
} opt; // options_parse sets it

extern const struct option_spec training_options[];
