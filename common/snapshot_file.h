// The parts of snapshot.c that shards.c uses, too.
#pragma once
#include "common/snapshot.h"
#include <limits.h>
#include <sys/uio.h>

// PATH_SIZE is beyond PATH_MAX, so that the system refuses a name that was cut short.
enum { SNAPSHOT_VERSION = 1, PATH_SIZE = PATH_MAX + 64 };

// Writes a file that consists of these parts, whole or not at all: to a temporary file beside it,
// onto the disk, then renamed.
int write_whole(const char *path, const struct iovec *parts, int count, char why[WHY_SIZE]);

// One file, as snapshot_save and snapshot_load, but without a look at shards.
int snapshot_write(const char *path, const struct snapshot *snapshot, char why[WHY_SIZE]);
int snapshot_read(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);

// Returns 0, or -1 with the reason if a file holds another version or model than expected, or an
// impossible progress.
int snapshot_check(const char *path, long version, const struct snapshot *found,
                   const struct snapshot *expected, char why[WHY_SIZE]);
