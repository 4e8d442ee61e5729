// A snapshot stores the state of a training run in a file, so the run can continue as if it had not
// stopped. The file has the bytes of struct snapshot from magic on (little-endian), and a CRC-32
// (zlib's) of all bytes before it. A run continues with the settings of its own options; the file
// stores those of the run before only to say what differs. A snapshot may also be divided into
// several files; snapshot_load reads both.
#pragma once
#include "common/base/error.h"
#include "common/kernels/kernels.h"
#include <stddef.h>
#include <stdint.h>

// The completed part of a training run.
struct progress {
    int64_t epochs, step; // completed epochs, and completed steps of the next epoch
    struct stats sums;    // over these steps
};

// The data and settings of a training run. A run with other data is refused, and one with other
// settings continues and says so.
struct conditions {
    char data[384];     // data_contents
    char settings[640]; // the optimizer's text, and other options that change the losses
};

// The state of a training run, in host memory. The model, the optimizer, the seed, the batch and
// the data identify the run: snapshot_load refuses the file of another run.
struct snapshot {
    char settings_before[640]; // those of the loaded file, if they differ; no part of a file
    char magic[8];             // what all files begin with
    int64_t version;           // of the format of files
    char model[128];           // struct model's shape
    char optimizer[16];        // such as "sgd"
    int64_t seed, batch;
    struct progress progress;
    size_t parameters, state_size; // numbers of values
    struct conditions conditions;
    float values[]; // the parameters, then the optimizer state
};

// Returns a snapshot of this run, which holds this model, with zeros for so many parameters and
// their optimizer state. The options tell the conditions. The caller frees it.
struct optimizer;
struct snapshot *snapshot_of_run(const char *model, const struct optimizer *optimizer,
                                 size_t parameters);

// Returns such a snapshot of the same run, with other numbers of values.
struct snapshot *snapshot_like(const struct snapshot *run, size_t parameters, size_t state_size);

// Prints that training continues from the snapshot, which has been loaded from this path. If its
// settings were different, prints both. finished 1: training is already complete.
void print_resumed(const char *path, const struct snapshot *snapshot, int finished);

// Copy the values of a snapshot from and to device memory. The snapshot says how many they are.
// Both wait for all work of the device before, and until the copies are done.
void snapshot_from_device(struct snapshot *snapshot, const float *parameters,
                          const float *optimizer_state);
void snapshot_to_device(const struct snapshot *snapshot, float *parameters, float *optimizer_state);

// Makes sure that no other run saves at path until this process ends. Call it before snapshot_load,
// because the other run might save in between. If several processes save one snapshot together, one
// of them calls it. Returns 0, or -1 with the reason in why, such as the host and the process of
// the other run. If the file system has no locks, prints a note and returns 0.
int snapshot_lock(const char *path, char why[WHY_SIZE]);

// Returns the process that has called snapshot_lock for this path, or 0 if none has done so within
// patience seconds: a network file system may need some time to show the lock to other nodes. A
// process that gets another number than the others sees another folder.
long snapshot_locked_by(const char *path, double patience);

// Writes the file at path completely or not at all: it writes a temporary file beside it, waits
// until the disk has it, and renames it. An older snapshot stays valid until then. Afterwards, it
// removes older shards of this path. Returns 0, or -1 with the reason in why.
int snapshot_save(const char *path, const struct snapshot *snapshot, char why[WHY_SIZE]);

// Finds out what the snapshot at path, whole or in shards, holds: sets the members that identify
// the run, and the numbers of values, so that snapshot_like(s, s->parameters, s->state_size) can
// load it. It does not read the values. Returns 1, or 0 if there is no such file, or -1 with the
// reason in why.
int snapshot_identify(const char *path, struct snapshot *s, char why[WHY_SIZE]);

// Reads the snapshot at path. The caller has set the members that identify the run. batch must
// be equal only if the file ends within an epoch, or if the optimizer counts steps. Returns 1, or 0
// if there is no such file, or -1 with the reason in why, such as a truncated, corrupt or newer
// file. After -1, the members that it sets are undefined. A device that leaves out the arithmetic
// (device_computes) has no snapshots, so this returns -1.
int snapshot_load(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
