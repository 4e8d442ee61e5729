// What a rank does with its shard of a model (zoo/snapshots/sharding.h): its initial values, its
// update, and its file.
#pragma once
#include "common/models/model.h"
#include "zoo/snapshots/shards.h"
#include "common/training/optimizer.h"

// Appends a unit of this size, or makes the last one larger if that is the same. Size 0: nothing.
void add_unit(struct sharding *sharding, size_t parameters, struct division division);

// Sets the parameters of a shard to their initial values: exactly those that the whole model has at
// these places. Padding becomes 0.
void shard_initialise(const struct sharding *sharding, int number, const struct model *model,
                      float *parameters, uint64_t seed, cudaStream_t stream);

// Lets an optimizer update the parameters of one shard.
void optimize_shard(struct optimizer *optimizer, const struct sharding *sharding, int number);

// Saves one shard completely or not at all, in a file beside path. The file at path stays as it
// is. Returns 0, or -1 with the reason in why.
int snapshot_save_shard(const char *path, const struct snapshot *shard,
                        const struct sharding *sharding, int number, char why[WHY_SIZE]);

// Writes the manifest, which makes the shards the snapshot at path. All shards must be saved; shard
// is any of them. Then removes all other shards of this path, and unfinished files of killed
// programs. No other process may save there at the same time. Returns 0, or -1 with the reason in
// why.
int snapshot_commit(const char *path, const struct snapshot *shard, const struct sharding *sharding,
                    char why[WHY_SIZE]);
