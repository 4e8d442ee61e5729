// A training state on disk: enough to go on as if nothing had happened. The file is the struct below,
// little-endian, with its values, and after them the CRC-32 (zlib's) of all bytes before.
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

// An all-zero training state with room for that many values; the caller frees it.
struct snapshot *snapshot_new(const char *model, const char *optimizer, size_t parameters, size_t states);

// Writes path whole or not at all: to a temporary file beside it, onto the disk, then renamed. An existing
// snapshot stays untouched until the new one is complete. Returns 0, or -1 with the reason in why.
int snapshot_save(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);

// Reads path into a snapshot that says what is expected (batch matters only if the file ends within an
// epoch). Returns 1; 0 when there is no such file; or -1 with the reason, also for a file that is truncated,
// corrupt, newer or of another model: then the contents are undefined.
int snapshot_load(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
