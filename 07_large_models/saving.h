// Snapshots of a sharded model: a file for each shard, or one file for everything.
#pragma once
#include "07_large_models/units.h"

enum saving { SAVE_SHARDED, SAVE_FULL };
const char *saving_name(int saving); // as the option, or NULL after the last one

// Saves a snapshot, and waits for the ranks that save. Only the ranks of the first group call it;
// rank is the number in it. The caller has copied the shard into state. SAVE_FULL: rank 0 gathers
// all shards and saves one file. number is one for barrier. Returns 0, or another value with the
// reason in why.
int units_save(struct units *f, const char *path, const struct snapshot *state, int rank,
               enum saving saving, double *number, char why[WHY_SIZE]);
