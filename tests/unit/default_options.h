// The options of the training programs with the defaults of their table, so that a test sets only
// those that it is about.
#pragma once
#include "common/training/training_options.h"

static inline struct training_options default_options(void) {
    char name[] = "test", *argv[] = {name, NULL};
    const struct option_table tables[] = {{NULL, training_options}, {NULL, NULL}};
    options_parse(tables, "", 1, argv);
    return opt;
}
