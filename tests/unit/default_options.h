// The options of the training programs with the defaults of their table, so that a test sets only
// those that it is about.
#pragma once
#include "common/training/training_options.h"
#include "zoo/zoo.h"

static inline struct training_options default_options(void) {
    char name[] = "test", *argv[] = {name, NULL};
    const struct option_table tables[] = {{NULL, zoo_options}, {NULL, training_options}, {0}};
    catalogue = &zoo;
    options_parse(tables, "", 1, argv);
    return opt;
}
