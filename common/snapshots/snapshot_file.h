// What snapshot.c shares with lock.c and with code for snapshots in several files.
#pragma once
#include "common/snapshots/snapshot.h"
#include <limits.h>
#include <sys/uio.h>

// PATH_SIZE is larger than PATH_MAX. A name that is cut to this size is still too long for the
// system, which then refuses it.
enum { PATH_SIZE = PATH_MAX + 64 };

enum { SNAPSHOT_VERSION = 3 }; // of the format of files and manifests

// The end of a message about a damaged file.
#define RESTORE_IT "restore a copy of it, or give another --snapshot"

// Returns a snapshot with these members and zeros. For a shard, parameters is shard_size, and
// state_size a multiple of it.
struct snapshot *snapshot_new(const char *model, const char *optimizer, long seed, long batch,
                              size_t parameters, size_t state_size);

// Sets target to path or, if it is a symbolic link, to the path of the file behind it, which need
// not exist. All files of a snapshot are beside that file, and the link stays.
void follow_links(char target[PATH_SIZE], const char *path);

// Writes a file that consists of these parts, completely or not at all, as snapshot_save does.
int write_whole(const char *path, const struct iovec *parts, int count, char why[WHY_SIZE]);

// A program that is linked with code for snapshots in several files calls these functions, which
// read both kinds. NULL: it has none.
extern const struct snapshot_files {
    int (*identify)(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
    int (*load)(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
    // Removes the other files of a snapshot, now that there is a whole one at path.
    void (*remove)(const char *path);
} * snapshot_files;

// Work like snapshot_save, snapshot_identify and snapshot_load, for a snapshot in one file.
int snapshot_write(const char *path, const struct snapshot *snapshot, char why[WHY_SIZE]);
int snapshot_read_header(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);
int snapshot_read(const char *path, struct snapshot *snapshot, char why[WHY_SIZE]);

// Returns 0, or -1 with the reason in why if the version, the model or the optimizer of a file are
// not as expected.
int snapshot_check(const char *path, const struct snapshot *found, const struct snapshot *expected,
                   char why[WHY_SIZE]);

// Compares all else of a complete file with the expected run in s, and sets its progress, and the
// settings of the file if they differ. Returns 0, or -1 with the reason in why if the file was
// trained in another way, or if its progress is impossible.
int snapshot_accept(const char *path, const struct snapshot *found, struct snapshot *s,
                    char why[WHY_SIZE]);
