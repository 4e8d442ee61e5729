// A training state on disk: enough to go on as if nothing had happened. The file is the struct
// below, little-endian, with its values, and after them the CRC-32 (zlib's) of all bytes before.
//
// Or it is cut into shards, each such a file, and at the snapshot's path lies a manifest: a short
// text that says what training it is, where it stands, and how it was cut. Both kinds are read by
// the same calls.
#pragma once
#include "kernels.h"
#include "model.h"
#include <stddef.h>
#include <stdint.h>

struct snapshot {
    char magic[8];
    int64_t version;
    char model[128];      // struct model's shape
    char optimizer[16];   // such as "sgd"
    int64_t seed, batch;  // set by the caller
    int64_t epochs, step; // epochs completed, and steps completed in the one after
    struct stats sums;    // over those steps
    int64_t parameters, states;
    float values[]; // the parameters, then the optimizer's states
};

// How values are cut. A unit is a run of parameters; each is padded with zeros to a multiple of the
// shards, and shard k (from 0) has the k-th of the equal pieces of every unit, for the parameters
// and then for each state of a parameter. {1, 1, {parameters}} is everything.
enum { MOST_SHARDS = 4096 };
struct sharding {
    int shards, units;        // 1 to MOST_SHARDS, and to MOST_LAYERS
    size_t unit[MOST_LAYERS]; // parameters of each, above 0, in their order in the flat array
};

// Parameters of one shard, with its padding.
size_t shard_size(const struct sharding *sharding);

// An all-zero training state with room for that many values; the caller frees it. Of a shard,
// parameters is shard_size, and states a multiple of it. Without values it has no room for them,
// and only says where training stands; it cannot be saved or loaded.
struct snapshot *snapshot_new(const char *model, const char *optimizer, size_t parameters,
                              size_t states, int has_values);

// Writes path whole or not at all: to a temporary file beside it, onto the disk, then renamed. An
// existing snapshot stays untouched until the new one is complete; shards at that path are removed
// then. Returns 0, or -1 with the reason in why.
int snapshot_save(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);

// Writes one shard, whole or not at all, to a file beside path. Its name holds where training
// stands and how it is cut, path.e<epochs>s<step>u<CRC-32 of the units>.<shard>of<shards>, so that
// it is none of the files of a snapshot that stands or is cut otherwise. Whatever is at path stays
// what it is.
int snapshot_save_shard(const char *path, struct snapshot *shard, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]);

// Makes the shards, all of which must have been saved, the snapshot at path, by the manifest; any
// of them, or one like them, says where training stands. Then removes all other shards of that
// path, and what killed writers left of some, so nobody may be saving there.
int snapshot_commit(const char *path, const struct snapshot *shard, const struct sharding *sharding,
                    char why[WHY_SIZE]);

// Reads path into a snapshot that says what is expected (batch matters only if the file ends within
// an epoch, or if the optimizer is Adam, which counts steps). Returns 1; 0 when there is no such
// file; or -1 with the reason, also for a file that is truncated, corrupt, newer or of another
// model: then the contents are undefined.
int snapshot_load(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);

// Reads one shard of what is at path, which may be whole or cut in any way; padding becomes zero.
// Opens those files only that hold a part of it. Else as snapshot_load.
int snapshot_load_shard(const char *path, struct snapshot *shard, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]);
