// The manifest of a snapshot in shards: a short text with the run, its progress, how the values are
// divided, and the checksum of each shard.
#pragma once
#include "05_fsdp/shards.h"

enum { MANIFEST_SIZE = 1 << 18 }; // larger than any manifest

struct manifest {
    struct sharding sharding;
    uint32_t checksums[MOST_SHARDS]; // at the ends of the shards' files
};

// Writes the lines about the run, its progress and the sharding to text, and returns their size.
size_t print_save(char text[MANIFEST_SIZE], const struct snapshot *s,
                  const struct sharding *sharding);

// Writes the manifest to text, and returns its size.
size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                      const struct manifest *manifest);

// Returns 1 if path is a manifest, of any run, 0 if it is none or not there, and -1 with the reason
// in why. After 1, found and manifest have what it says, and all else in them is zero. The caller
// checks the version, the run, and whether the sharding fits.
int read_manifest(const char *path, struct snapshot *found, struct manifest *manifest,
                  char why[WHY_SIZE]);
