// Snapshots of a sharded model: a file for each shard, or one file for everything.
#pragma once
#include "07_large_models/units.h"

// Saves a snapshot, and waits for the ranks that save. Only the ranks of the first group call it;
// rank is the number in it. The caller has copied the shard into state. full 1: rank 0 gathers all
// shards and saves one file. Returns 0, or another value with the reason in why.
int units_save(struct fsdp *f, const char *path, const struct snapshot *state, int rank, int full,
               char why[WHY_SIZE]);
