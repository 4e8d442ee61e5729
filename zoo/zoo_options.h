// The options of the models, optimizers and data sets of zoo/.
#pragma once
#include "common/base/options.h"

extern struct zoo_options {
    const char *size, *augment, *schedule;
    long depth, width, layers, heads, context, warmup, step_epochs, nesterov, summary, verify;
    double dropout, gamma, beta1, beta2, rho, epsilon;
} zoo_opt; // options_parse sets it

extern const struct option_spec zoo_options[];
