// A snapshot stores the state of a training run in a file, so the run can continue as if it had not
// stopped. The file has a header, the values below (little-endian), and a CRC-32 of all bytes
// before it. It stores no settings of the optimizer and of the schedule: a run continues with those
// of its own options. A snapshot may also be divided into shards (common/shards.h); snapshot_load
// reads both.
#pragma once
#include "common/error.h"
#include "common/kernels.h"
#include <stddef.h>
#include <stdint.h>

// The completed part of a training run.
struct progress {
    int64_t epochs, step; // completed epochs, and completed steps of the next epoch
    struct stats sums;    // over these steps
};

// The state of a training run, in host memory. The first four members identify the run:
// snapshot_load refuses the file of another run.
struct snapshot {
    char model[128];    // struct model's shape
    char optimizer[16]; // such as "sgd"
    int64_t seed, batch;
    struct progress progress;
    size_t parameters, state_size; // numbers of values
    float values[];                // the parameters, then the optimizer state
};

// Returns a snapshot with these members; all others are zero. The caller frees it. For a
// shard, parameters is shard_size, and state_size a multiple of it.
struct snapshot *snapshot_new(const char *model, const char *optimizer, long seed, long batch,
                              size_t parameters, size_t state_size);

// Writes the file at path completely or not at all: it writes a temporary file beside it, waits
// until the disk has it, and renames it. An older snapshot stays valid until then. Afterwards, it
// removes older shards of this path. Returns 0, or -1 with the reason in why.
int snapshot_save(const char *path, const struct snapshot *snapshot, char why[WHY_SIZE]);

// Reads the snapshot at path. The caller has set the members that identify the run. batch must
// be equal only if the file ends within an epoch, or if the optimizer counts steps. Returns 1, or 0
// if there is no such file, or -1 with the reason in why, such as a truncated, corrupt or newer
// file. After -1, progress and values are undefined. A device that leaves out the arithmetic
// (device_computes) has no snapshots, so this returns -1.
int snapshot_load(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
