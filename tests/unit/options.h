// Options of the training programs, and models, from the words of a command line.
#pragma once
#include "common/data/data.h"
#include "common/models/model.h"
#include "common/training/training_options.h"
#include "tests/test.h"

// The values of options point into the words of the last call.
static inline void set_options(const char *words) {
    static char copy[1000];
    char *argv[40] = {copy};
    int argc = 0;
    const struct option_table tables[] = {{NULL, training_options}, {0}};
    snprintf(copy, sizeof copy, "test %s", words);
    for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
        argv[argc++] = word;
    options_parse(tables, "", argc, argv);
}

// Returns the data set of samples of this shape: texts for a model that reads tokens, else images.
static inline struct dataset set_of(struct shape in, int classes) {
    int tokens = !strcmp(opt.model, "gpt"), inputs = shape_size(in);
    return (struct dataset){.shape = in,
                            .inputs = inputs,
                            .targets = tokens ? inputs : 1,
                            .classes = classes,
                            .tokens = tokens,
                            .mean = {0.5f, 0.25f},
                            .deviation = {0.25f, 0.5f}};
}
