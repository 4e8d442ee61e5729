// The manifest of a snapshot in shards: a short text with the run, its progress, and how the values
// are divided.
#pragma once
#include "zoo/snapshots/shards.h"

enum { MANIFEST_SIZE = 1 << 16 }; // larger than any manifest

// Writes the manifest to text, and returns its size.
size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                      const struct sharding *sharding);

// Returns 1 if path is a manifest, of any run, 0 if it is none, and -1 with the reason in why.
// After 1, found and sharding have what it says, and all else in them is zero. The caller checks
// the version, the run, and whether the sharding fits.
int read_manifest(const char *path, struct snapshot *found, struct sharding *sharding,
                  char why[WHY_SIZE]);
