// The manifest of a snapshot in shards: a short text with the run, its progress, and how the values
// are divided.
#pragma once
#include "zoo/snapshots/shards.h"

enum { MANIFEST_SIZE = 1 << 16 }; // larger than any manifest

// Writes the manifest to text, and returns its size.
size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                      const struct sharding *sharding);

// Returns 1 if path is a manifest, of any run, 0 if it is none, and -1 with the reason in why.
// After 1, found has what identifies the run, its conditions and progress, and sharding has its
// sharding. The caller checks whether the sharding fits.
int parse_manifest(const char *path, long *version, struct snapshot *found,
                   struct sharding *sharding, char why[WHY_SIZE]);

// Returns 1 if path is a manifest of the run in s, whose model has this number of parameters, 0 if
// it is no manifest, and -1 with the reason in why. After 1, s has the progress of the manifest,
// and sharding has its sharding.
int read_manifest(const char *path, struct snapshot *s, size_t parameters,
                  struct sharding *sharding, char why[WHY_SIZE]);
