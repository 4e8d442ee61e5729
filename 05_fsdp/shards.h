// Snapshots in shards: each shard (05_fsdp/sharding.h) has its own file, with the format of a
// whole snapshot: first the parameters, then each optimizer state. The file at the snapshot's path
// is a manifest (05_fsdp/manifest.h), whose checksums tell whether a file is the right shard.
//
// Each program that is linked with shards.c continues from such a snapshot (snapshot_load).
#pragma once
#include "05_fsdp/sharding.h"
#include "common/snapshots/snapshot_file.h"

// Removes all shards of this path but those that a manifest at path names. A rank that cannot save
// its shard calls it when no other rank saves.
void remove_shards(const char *path);

// Reads one shard from the snapshot at path, which may be one file or have any number of shards.
// Sets padding to zero. Opens only files that hold a part of the shard. Otherwise like
// snapshot_load.
int snapshot_load_shard(const char *path, struct snapshot *shard, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]);

// Saves one shard completely or not at all, in a file beside path, whose name is
// path.e<epochs>s<step>u<CRC-32 of the run and the units>.<shard>of<shards>, so it replaces no file
// of another snapshot. The file at path stays as it is. Returns 0, or -1 with the reason in why.
int snapshot_save_shard(const char *path, const struct snapshot *shard,
                        const struct sharding *sharding, int number, char why[WHY_SIZE]);

// Writes the manifest, which makes the shards the snapshot at path. All shards must be saved; shard
// is any of them. Then removes all other shards of this path, and unfinished files of killed
// programs. No other process may save there at the same time. Returns 0, or -1 with the reason in
// why.
int snapshot_commit(const char *path, const struct snapshot *shard, const struct sharding *sharding,
                    char why[WHY_SIZE]);
