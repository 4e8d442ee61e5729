// Watches a training run: --profile, which says where the time of a training step goes, and
// --trace.
#pragma once
#include "common/base/options.h"

extern const struct option_spec watch_options[];

// Watches from here on what the options ask for. If there are several processes, process is the
// number of this one.
void trace_and_profile(int process, int processes);
