// The conditions of a run: the data and the settings that it trains with. A snapshot stores them.
// A run with other data is refused, and one with other settings continues and says so.
#pragma once
#include "common/base/options.h"
#include "common/data/data.h"
#include "common/snapshots/snapshot.h"

// Sets the conditions of the snapshot from the training set, which must be in host memory, from the
// optimizer's text, and from the options in the tables.
void set_conditions(struct snapshot *snapshot, const struct dataset *train, const char *optimizer,
                    const struct option_table *tables);

// Prints that training continues from the snapshot, which has been loaded from this path. If its
// settings were different, prints both. finished 1: training is already complete.
void print_resumed(const char *path, const struct snapshot *snapshot, int finished);
