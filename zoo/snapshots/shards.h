// Snapshots in shards: each shard (zoo/snapshots/sharding.h) has its own file, with the format
// of a whole snapshot: first the parameters, then each optimizer state. The file at the snapshot's
// path is a manifest: a short text with the run, its progress, and how the values are divided.
#pragma once
#include "zoo/snapshots/sharding.h"
#include "common/snapshots/snapshot_file.h"

// What struct catalogue (common/training/catalogue.h) says.
int identify_shards(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
int load_shards(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
void remove_shards(const char *path);

// Reads one shard from the snapshot at path, which may be one file or have any number of shards.
// Sets padding to zero. Opens only files that hold a part of the shard. Otherwise like
// snapshot_load.
int snapshot_load_shard(const char *path, struct snapshot *shard, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]);

// Sets name to the file of a shard of path: path.e<epochs>s<step>u<CRC-32 of the
// units>.<shard>of<shards>, so it replaces no file of another snapshot.
void shard_path(char name[PATH_SIZE], const char *path, const struct snapshot *snapshot,
                const struct sharding *sharding, int number);

// Removes the shards of path, except those that snapshot and sharding name.
void shards_remove(const char *path, const struct snapshot *snapshot,
                   const struct sharding *sharding);
