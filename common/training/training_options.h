// The options of all training programs. A new option needs a member of this struct, and a row in
// the table in training_options.c.
#pragma once
#include "common/base/options.h"

extern struct training_options {
    const char *data, *model, *hidden, *augment, *optimizer, *schedule, *snapshot, *csv;
    const char *size, *trace;
    long depth, width, layers, heads, context, epochs, max_steps, batch, warmup, step_epochs,
        nesterov, tf32, seed;
    long log_every, save_every, summary, profile;
    double dropout, label_smoothing, lr, gamma, momentum, weight_decay, beta1, beta2, rho, epsilon;
    double save_minutes;
} opt; // options_parse sets it

extern const struct option_spec training_options[];

// Prints a note that names the options without effect, such as --rho with --optimizer sgd, if there
// are any. The tables are those of the program.
void print_unused(const struct option_table *tables);
