#include "05_fsdp/shards.h"
#include "05_fsdp/manifest.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

static size_t count_parameters(const struct sharding *sharding) {
    size_t sum = 0;
    for (int i = 0; i < sharding->units; i++)
        sum += sharding->unit[i];
    return sum;
}

// The names of a save's shards begin like this. A run that continues from the same training step in
// another way has other names: so a shard replaces none that a manifest still names, unless by the
// same bytes. The losses would make other names on each machine.
static void save_name(char name[PATH_SIZE], const char *path, const struct snapshot *s,
                      const struct sharding *sharding) {
    static char text[MANIFEST_SIZE];
    struct snapshot run = *s;
    run.progress.sums = (struct stats){0};
    size_t size = print_save(text, &run, sharding);
    follow_links(name, path);
    size_t length = strlen(name);
    snprintf(name + length, PATH_SIZE - length, ".e%lds%ldu%08lx", (long)s->progress.epochs,
             (long)s->progress.step, crc32_z(0, (unsigned char *)text, size));
}

static void shard_path(char name[PATH_SIZE], const char *path, const struct snapshot *s,
                       const struct sharding *sharding, int number) {
    save_name(name, path, s, sharding);
    size_t length = strlen(name);
    snprintf(name + length, PATH_SIZE - length, ".%dof%d", number, sharding->shards);
}

// A file is a shard of path only if shard_path could have made its name. An unfinished shard also
// has .tmp at the end.
void remove_shards(const char *link) {
    char path[PATH_SIZE], folder[PATH_SIZE], name[PATH_SIZE], keep[PATH_SIZE] = "none",
                                                              why[WHY_SIZE];
    follow_links(path, link);
    const char *base = basename(path);
    unsigned long epochs, step;
    unsigned crc, number, shards;
    struct snapshot kept;
    struct manifest manifest;
    int found = read_manifest(path, &kept, &manifest, why);
    if (found < 0)
        return;
    if (found)
        save_name(keep, "", &kept, &manifest.sharding);
    snprintf(folder, sizeof folder, "%s", path);
    DIR *entries = opendir(dirname(folder));
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *end = entry->d_name + strlen(base);
        if (strncmp(entry->d_name, base, strlen(base)) ||
            sscanf(end, ".e%18lus%18luu%8x.%9uof%9u", &epochs, &step, &crc, &number, &shards) != 5)
            continue;
        int length = sprintf(name, ".e%lus%luu%08x.%uof%u", epochs, step, crc, number, shards);
        if (strncmp(end, name, length))
            continue;
        if (end[length] ? !strcmp(end + length, ".tmp") : strncmp(end, keep, strlen(keep)))
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries)
        closedir(entries);
}

int snapshot_save_shard(const char *path, const struct snapshot *s, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]) {
    char name[PATH_SIZE];
    shard_path(name, path, s, sharding, number);
    return snapshot_write(name, s, why);
}

// Reads the checksum at the end of a file. Returns 0, or -1 with the reason in errno.
static int read_checksum(const char *name, uint32_t *checksum) {
    FILE *file = fopen(name, "rbe");
    int failed = !file || fseek(file, -(long)sizeof *checksum, SEEK_END) ||
                 fread(checksum, sizeof *checksum, 1, file) != 1;
    if (file)
        fclose(file);
    return -failed;
}

int snapshot_commit(const char *name, const struct snapshot *s, const struct sharding *sharding,
                    char why[WHY_SIZE]) {
    static char text[MANIFEST_SIZE];
    char path[PATH_SIZE], shard[PATH_SIZE];
    struct manifest manifest = {*sharding};
    follow_links(path, name);
    int failed = 0;
    for (int i = 0; i < sharding->shards && !failed; i++) {
        shard_path(shard, path, s, sharding, i);
        if (read_checksum(shard, &manifest.checksums[i]))
            failed = refuse(why, "cannot write snapshot %.200s: its shard %.200s is not there: %s",
                            path, shard, strerror(errno));
    }
    size_t size = print_manifest(text, s, &manifest);
    if (!failed)
        failed = write_whole(path, &(struct iovec){text, size}, 1, why);
    remove_shards(path);
    return failed;
}

// One shard: its number in a sharding.
struct shard {
    const struct sharding *sharding;
    int number;
};

// A range of values that two shards hold: its index in each of them, and its size.
struct overlap {
    size_t to, from, count;
};

// Finds the first range in both shards at or after *parameter, and moves *parameter to its end.
// Returns 0 if there is none.
static int next_overlap(struct shard to, struct shard from, size_t *parameter,
                        struct overlap *overlap) {
    size_t parameters = count_parameters(to.sharding);
    while (*parameter < parameters) {
        struct location a = shard_find(to.sharding, to.number, *parameter);
        struct location b = shard_find(from.sharding, from.number, *parameter);
        *overlap = (struct overlap){a.index, b.index, min_size(a.count, b.count)};
        *parameter += overlap->count;
        if (a.held && b.held)
            return 1;
    }
    return 0;
}

// Copies the parameters and the optimizer state that both shards hold.
static void copy_overlaps(struct snapshot *s, struct shard to, const struct snapshot *file,
                          struct shard from) {
    struct overlap overlap;
    size_t arrays = 1 + s->state_size / s->parameters;
    for (size_t parameter = 0; next_overlap(to, from, &parameter, &overlap);)
        for (size_t i = 0; i < arrays; i++)
            memcpy(s->values + i * s->parameters + overlap.to,
                   file->values + i * file->parameters + overlap.from,
                   overlap.count * sizeof(float));
}

// Returns 1 if shard i was read with this result and is the one of the manifest, else -1. Then the
// reason in why, which is about the file, also names the snapshot at path.
static int must_be_there(const char *path, const struct manifest *manifest, int i, const char *name,
                         int result, char why[WHY_SIZE]) {
    char reason[WHY_SIZE];
    int shards = manifest->sharding.shards, other = 0;
    uint32_t checksum = 0;
    read_checksum(name, &checksum); // 0 if that fails, and then result tells why
    if (result == 0)
        return refuse(why, "snapshot %.200s lacks its shard %.200s: %s; " RESTORE_IT, path, name,
                      strerror(ENOENT));
    if (result == 1 && checksum == manifest->checksums[i])
        return 1;
    while (other < shards && checksum != manifest->checksums[other])
        other++;
    if (other < shards && other != i)
        return refuse(
            why, "snapshot %.200s: %.200s is shard %d of %d, but shard %d is wanted; " RESTORE_IT,
            path, name, other, shards, i);
    if (result == 1)
        return refuse(why, "snapshot %.200s: its shard %.200s belongs to another save; " RESTORE_IT,
                      path, name);
    snprintf(reason, sizeof reason, "%s", why);
    return refuse(why, "snapshot %.200s has a shard that is refused: %.700s", path, reason);
}

// Reads the file of a shard, and copies the values that s, the shard named to, also holds.
static int load_overlaps(const char *name, struct snapshot *s, struct shard to, struct shard from,
                         char why[WHY_SIZE]) {
    size_t size = shard_size(from.sharding, from.number);
    struct snapshot *file = snapshot_like(s, size, s->state_size / s->parameters * size);
    int result = snapshot_read(name, file, why);
    if (result == 1) {
        s->progress = file->progress;
        memcpy(s->settings_before, file->settings_before, sizeof s->settings_before);
        copy_overlaps(s, to, file, from);
    }
    free(file);
    return result;
}

static int load_shard(const char *path, struct snapshot *s, struct shard to, char why[WHY_SIZE]) {
    char name[PATH_SIZE];
    struct snapshot found;
    struct manifest manifest;
    const struct sharding *saved = &manifest.sharding;
    struct sharding whole = {1, 1, {count_parameters(to.sharding)}};
    struct overlap overlap;
    if (!device_computes())
        return snapshot_read(path, s, why); // which refuses this
    int result = read_manifest(path, &found, &manifest, why);
    if (result == 0 && to.sharding->shards == 1)
        return snapshot_read(path, s, why); // without a copy
    memset(s->values, 0, (s->parameters + s->state_size) * sizeof(float));
    if (result == 0)
        return load_overlaps(path, s, to, (struct shard){&whole, 0}, why);
    if (result < 0 || snapshot_check(path, &found, s, why))
        return -1;
    if (!sharding_fits(saved, *whole.unit))
        return refuse(
            why,
            "snapshot %.300s is corrupt: its units or shards do not fit the model; " RESTORE_IT,
            path);
    if (snapshot_accept(path, &found, s, why))
        return -1;
    for (int i = 0; i < saved->shards && result == 1; i++) {
        struct shard from = {saved, i};
        size_t parameter = 0;
        if (!next_overlap(to, from, &parameter, &overlap))
            continue;
        shard_path(name, path, &found, saved, i);
        result = load_overlaps(name, s, to, from, why);
        result = must_be_there(path, &manifest, i, name, result, why);
    }
    return result;
}

static int identify(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    struct manifest manifest;
    const struct sharding *saved = &manifest.sharding;
    char name[PATH_SIZE];
    struct snapshot shard;
    int result = read_manifest(path, s, &manifest, why);
    if (result == 0)
        return snapshot_read_header(path, s, why);
    if (result < 0 || snapshot_check(path, s, s, why))
        return -1;
    shard_path(name, path, s, saved, 0);
    result = snapshot_read_header(name, &shard, why);
    if (must_be_there(path, &manifest, 0, name, result, why) < 0)
        return -1;
    s->parameters = count_parameters(saved);
    s->state_size = s->parameters * (shard.state_size / shard.parameters);
    return 1;
}

// Returns 1 if a run has replaced the file at path since it was as described in *seen.
static int is_new(const char *path, struct stat *seen) {
    struct stat before = *seen;
    return !stat(path, seen) &&
           (seen->st_ino != before.st_ino || seen->st_ctim.tv_sec != before.st_ctim.tv_sec ||
            seen->st_ctim.tv_nsec != before.st_ctim.tv_nsec);
}

// Identifies the snapshot, or loads the shard. A run that saves meanwhile removes the shards of the
// manifest before, so this reads a new manifest again.
static int read_latest(const char *path, struct snapshot *s, const struct shard *to,
                       char why[WHY_SIZE]) {
    struct stat seen = {0};
    int result;
    is_new(path, &seen);
    do
        result = to ? load_shard(path, s, *to, why) : identify(path, s, why);
    while (result < 0 && is_new(path, &seen));
    return result;
}

static int identify_shards(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return read_latest(path, s, NULL, why);
}

int snapshot_load_shard(const char *path, struct snapshot *s, const struct sharding *sharding,
                        int number, char why[WHY_SIZE]) {
    return read_latest(path, s, &(struct shard){sharding, number}, why);
}

static int load_shards(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return snapshot_load_shard(path, s, &(struct sharding){1, 1, {s->parameters}}, 0, why);
}

// Runs before main in each program that is linked with this file.
__attribute__((constructor)) static void join_program(void) {
    static const struct snapshot_files shards = {identify_shards, load_shards, remove_shards};
    snapshot_files = &shards;
}
