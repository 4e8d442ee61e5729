#include "common/shards.h"
#include "common/snapshot_file.h"
#include <dirent.h>
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { MANIFEST_SIZE = 4096 }; // larger than any manifest
static const char MANIFEST[] = "MANIFEST ";

static size_t parameters_of(const struct sharding *cut) {
    size_t sum = 0;
    for (int i = 0; i < cut->units; i++)
        sum += cut->unit[i];
    return sum;
}

// Returns the parameters of unit i in each shard.
static size_t share(const struct sharding *cut, int i) {
    return cut->unit[i] / cut->shards + (cut->unit[i] % cut->shards > 0);
}

size_t shard_size(const struct sharding *cut) {
    size_t size = 0;
    for (int i = 0; i < cut->units; i++)
        size += share(cut, i);
    return size;
}

static void shard_path(char name[PATH_SIZE], const char *path, const struct snapshot *s,
                       const struct sharding *cut, int number) {
    uint32_t units = crc32_z(0, (const unsigned char *)cut->unit, cut->units * sizeof *cut->unit);
    snprintf(name, PATH_SIZE, "%s.e%lds%ldu%08x.%dof%d", path, (long)s->progress.epochs,
             (long)s->progress.step, units, number, cut->shards);
}

// Removes the shards of path, except those that s and kept name. A file is a shard only if its name
// is one that shard_path makes, with or without .tmp behind it.
void shards_remove(const char *path, const struct snapshot *s, const struct sharding *kept) {
    char folder[PATH_SIZE], name[PATH_SIZE], keep[PATH_SIZE];
    const char *base = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    unsigned long epochs, step;
    unsigned units, number, shards;
    snprintf(folder, sizeof folder, "%s", path);
    DIR *entries = opendir(dirname(folder));
    for (struct dirent *entry; entries && (entry = readdir(entries));) {
        const char *end = entry->d_name + strlen(base);
        if (strncmp(entry->d_name, base, strlen(base)) ||
            sscanf(end, ".e%18lus%18luu%8x.%9uof%9u", &epochs, &step, &units, &number, &shards) !=
                5)
            continue;
        int length = sprintf(name, ".e%lus%luu%08x.%uof%u", epochs, step, units, number, shards);
        shard_path(keep, "", s, kept, (int)number);
        if (!strncmp(end, name, length) && (!end[length] || !strcmp(end + length, ".tmp")) &&
            strcmp(end, keep))
            unlinkat(dirfd(entries), entry->d_name, 0);
    }
    if (entries)
        closedir(entries);
}

int snapshot_save_shard(const char *path, const struct snapshot *s, const struct sharding *own,
                        int number, char why[WHY_SIZE]) {
    char name[PATH_SIZE];
    shard_path(name, path, s, own, number);
    return snapshot_write(name, s, why);
}

// Writes the manifest to text, and returns its size.
static size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                             const struct sharding *cut) {
    const struct progress *p = &s->progress;
    int size =
        snprintf(text, MANIFEST_SIZE,
                 "%s%ld\nmodel %.127s\noptimizer %.15s\nseed %ld\nbatch %ld\nepochs %ld\nstep %ld\n"
                 "loss %.17g\ncorrect %.17g\nsamples %.17g\nshards %d\n",
                 MANIFEST, (long)SNAPSHOT_VERSION, s->model, s->optimizer, (long)s->seed,
                 (long)s->batch, (long)p->epochs, (long)p->step, p->sums.loss, p->sums.correct,
                 p->sums.samples, cut->shards);
    for (int i = 0; i < cut->units; i++)
        size += snprintf(text + size, MANIFEST_SIZE - size, "unit %zu\n", cut->unit[i]);
    uint32_t crc = crc32_z(0, (unsigned char *)text, size);
    return size + snprintf(text + size, MANIFEST_SIZE - size, "crc32 %08x\n", crc);
}

int snapshot_commit(const char *path, const struct snapshot *s, const struct sharding *cut,
                    char why[WHY_SIZE]) {
    char text[MANIFEST_SIZE];
    size_t size = print_manifest(text, s, cut);
    if (write_whole(path, &(struct iovec){text, size}, 1, why))
        return -1;
    shards_remove(path, s, cut);
    return 0;
}

// Returns 1 if path is a manifest of the training in s, 0 if it is none, and -1 with the reason in
// why. After 1, s has the manifest's progress, and cut its sharding.
static int read_manifest(const char *path, struct snapshot *s, size_t parameters,
                         struct sharding *cut, char why[WHY_SIZE]) {
    char text[MANIFEST_SIZE + 1] = "", again[MANIFEST_SIZE], *unit = text + strlen(MANIFEST);
    struct snapshot found = *s;
    struct progress *p = &found.progress;
    long version = SNAPSHOT_VERSION;
    int length = 0, fit = 1;
    FILE *file = fopen(path, "rbe");
    size_t size = file ? fread(text, 1, MANIFEST_SIZE, file) : 0;
    if (file)
        fclose(file);
    if (strncmp(text, MANIFEST, strlen(MANIFEST)))
        return 0;
    sscanf(
        unit,
        "%18ld model %127[^\n] optimizer %15[^\n] seed %18ld batch %18ld epochs %18ld step %18ld "
        "loss %lf correct %lf samples %lf shards %9d %n",
        &version, found.model, found.optimizer, &found.seed, &found.batch, &p->epochs, &p->step,
        &p->sums.loss, &p->sums.correct, &p->sums.samples, &cut->shards, &length);
    for (unit += length; cut->units < MOST_LAYERS; unit += length) {
        size_t *count = &cut->unit[cut->units];
        if (sscanf(unit, "unit %18zu %n", count, &length) != 1)
            break;
        fit = fit && *count <= parameters;
        parameters -= *count;
        cut->units++;
    }
    // The manifest is complete if writing its contents again gives the same bytes, including the
    // checksum.
    if (version == SNAPSHOT_VERSION &&
        (size != print_manifest(again, &found, cut) || memcmp(text, again, size)))
        return refuse(why, "snapshot %.300s is a truncated or corrupt manifest", path);
    if (snapshot_check(path, version, &found, s, why))
        return -1;
    if (!fit || parameters > 0 || cut->shards < 1 || cut->shards > MOST_SHARDS)
        return refuse(why, "snapshot %.300s is corrupt: its units or shards do not fit the model",
                      path);
    s->progress = found.progress;
    return 1;
}

// Finds the shard of a parameter, its index in this shard, and the number of values from it on that
// have the same order there as in the flat array.
static int find(const struct sharding *cut, size_t parameter, size_t *place, size_t *run) {
    int i = 0;
    for (*place = 0; parameter >= cut->unit[i]; i++) {
        parameter -= cut->unit[i];
        *place += share(cut, i);
    }
    size_t size = share(cut, i), left = cut->unit[i] - parameter, offset = parameter % size;
    *place += offset;
    *run = left < size - offset ? left : size - offset;
    return (int)(parameter / size);
}

// Copies the values that both shards hold, unless from is NULL. Returns 1 if there are any.
static int copy_overlap(struct snapshot *to, const struct sharding *own, int number,
                        const struct snapshot *from, const struct sharding *cut, int other) {
    size_t parameters = parameters_of(own), to_place, from_place, to_run, from_run, run;
    int any = 0;
    for (size_t i = 0; i < parameters; i += run) {
        int to_shard = find(own, i, &to_place, &to_run),
            from_shard = find(cut, i, &from_place, &from_run);
        int here = to_shard == number && from_shard == other;
        run = to_run < from_run ? to_run : from_run;
        for (size_t k = 0; here && from && k <= to->state_size / to->parameters; k++)
            memcpy(to->values + k * to->parameters + to_place,
                   from->values + k * from->parameters + from_place, run * sizeof(float));
        any |= here;
    }
    return any;
}

// Reads shard number i of a manifest, or the whole file at path if it is no manifest, and copies
// the values that the caller's shard also holds.
static int load_part(const char *path, struct snapshot *s, const struct sharding *own, int number,
                     const struct sharding *cut, int i, int is_cut, char why[WHY_SIZE]) {
    char name[PATH_SIZE];
    size_t size = shard_size(cut);
    snprintf(name, sizeof name, "%s", path);
    if (is_cut)
        shard_path(name, path, s, cut, i);
    struct snapshot *file = snapshot_new(s->model, s->optimizer, s->seed, s->batch, size,
                                         s->state_size / s->parameters * size);
    int result = snapshot_read(name, file, why);
    if (is_cut && result == 0)
        result =
            refuse(why, "snapshot %.200s lacks its shard %.200s: %s", path, name, strerror(ENOENT));
    if (is_cut && result == 1 &&
        (file->progress.epochs != s->progress.epochs || file->progress.step != s->progress.step))
        result = refuse(why, "snapshot %.200s: its shard %.200s is of another step", path, name);
    if (result == 1) {
        s->progress = file->progress;
        copy_overlap(s, own, number, file, cut, i);
    }
    free(file);
    return result;
}

int snapshot_load_shard(const char *path, struct snapshot *s, const struct sharding *own,
                        int number, char why[WHY_SIZE]) {
    struct sharding cut = {0};
    size_t parameters = parameters_of(own);
    int is_cut = read_manifest(path, s, parameters, &cut, why), result = is_cut;
    if (is_cut < 0)
        return -1;
    if (!is_cut && own->shards == 1)
        return snapshot_read(path, s, why); // needs no copy
    if (!is_cut)
        cut = (struct sharding){1, 1, {parameters}};
    memset(s->values, 0, (s->parameters + s->state_size) * sizeof(float));
    for (int i = 0; i < cut.shards && result >= 0; i++)
        if (!is_cut || copy_overlap(s, own, number, NULL, &cut, i))
            result = load_part(path, s, own, number, &cut, i, is_cut, why);
    return result;
}
