#include "snapshot.h"
#include "error.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

// PATH_SIZE is beyond PATH_MAX, so that the system refuses a name that was cut short. MANIFEST_SIZE
// is beyond the longest manifest.
enum { VERSION = 1, PATH_SIZE = PATH_MAX + 64, MANIFEST_SIZE = 4096 };
static const char MAGIC[8] = "SNAPSHOT", MANIFEST[] = "MANIFEST ";
_Static_assert(offsetof(struct snapshot, values) == 232,
               "the header of version 1, without padding");

static size_t bytes_before_crc(const struct snapshot *s) {
    return sizeof *s + (size_t)(s->parameters + s->states) * sizeof(float);
}

static size_t parameters_of(const struct sharding *cut) {
    size_t sum = 0;
    for (int i = 0; i < cut->units; i++)
        sum += cut->unit[i];
    return sum;
}

// Parameters of unit i in each shard.
static size_t share(const struct sharding *cut, int i) {
    return cut->unit[i] / cut->shards + (cut->unit[i] % cut->shards > 0);
}

size_t shard_size(const struct sharding *cut) {
    size_t size = 0;
    for (int i = 0; i < cut->units; i++)
        size += share(cut, i);
    return size;
}

struct snapshot *snapshot_new(const char *model, const char *optimizer, size_t parameters,
                              size_t states, int has_values) {
    size_t values = has_values ? parameters + states : 0;
    struct snapshot *s = calloc(1, sizeof *s + (values + 1) * sizeof(float));
    if (!s)
        fail("no memory for a snapshot of %zu values", values);
    memcpy(s->magic, MAGIC, sizeof MAGIC);
    s->version = VERSION;
    snprintf(s->model, sizeof s->model, "%s", model);
    snprintf(s->optimizer, sizeof s->optimizer, "%s", optimizer);
    s->parameters = (int64_t)parameters;
    s->states = (int64_t)states;
    return s;
}

static int write_file(const char *path, const void *bytes, size_t size, char why[WHY_SIZE]) {
    char temporary[PATH_SIZE];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "wbe");
    if (!file)
        return refuse(why, "cannot write snapshot %.300s: %s", path, strerror(errno));
    int failed = fwrite(bytes, 1, size, file) != size || fflush(file) || fsync(fileno(file));
    int reason = errno;
    fclose(file); // all is on the disk or has failed, so this has nothing new to say
    if (failed || rename(temporary, path)) {
        refuse(why, "cannot write snapshot %.300s: %s", path, strerror(failed ? reason : errno));
        unlink(temporary);
        return -1;
    }
    // Until its folder is on the disk too, a power cut may bring the old snapshot back. Not all
    // file systems can do this, and either snapshot is whole, so a failure is none of ours.
    int folder = open(dirname(temporary), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fsync(folder);
    close(folder);
    return 0;
}

static int write_snapshot(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    size_t size = bytes_before_crc(s);
    uint32_t crc = crc32_z(0, (unsigned char *)s, size);
    memcpy((char *)s + size, &crc, sizeof crc);
    return write_file(path, s, size + sizeof crc, why);
}

static void shard_path(char name[PATH_SIZE], const char *path, const struct snapshot *s,
                       const struct sharding *cut, int number) {
    uint32_t units = crc32_z(0, (const unsigned char *)cut->unit, cut->units * sizeof *cut->unit);
    snprintf(name, PATH_SIZE, "%s.e%lds%ldu%08x.%dof%d", path, (long)s->epochs, (long)s->step,
             units, number, cut->shards);
}

// Removes the shards of path but those that s and kept name. Only a file with exactly the name that
// shard_path makes, or that and .tmp, is a shard.
static void remove_shards(const char *path, const struct snapshot *s, const struct sharding *kept) {
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

int snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    if (write_snapshot(path, s, why))
        return -1;
    remove_shards(path, s, &(struct sharding){0});
    return 0;
}

int snapshot_save_shard(const char *path, struct snapshot *s, const struct sharding *own,
                        int number, char why[WHY_SIZE]) {
    char name[PATH_SIZE];
    shard_path(name, path, s, own, number);
    return write_snapshot(name, s, why);
}

// Returns the manifest's size.
static size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                             const struct sharding *cut) {
    int size =
        snprintf(text, MANIFEST_SIZE,
                 "%s%ld\nmodel %.127s\noptimizer %.15s\nseed %ld\nbatch %ld\nepochs %ld\nstep %ld\n"
                 "loss %.17g\ncorrect %.17g\nsamples %.17g\nshards %d\n",
                 MANIFEST, (long)s->version, s->model, s->optimizer, (long)s->seed, (long)s->batch,
                 (long)s->epochs, (long)s->step, s->sums.loss, s->sums.correct, s->sums.samples,
                 cut->shards);
    for (int i = 0; i < cut->units; i++)
        size += snprintf(text + size, MANIFEST_SIZE - size, "unit %zu\n", cut->unit[i]);
    uint32_t crc = crc32_z(0, (unsigned char *)text, size);
    return size + snprintf(text + size, MANIFEST_SIZE - size, "crc32 %08x\n", crc);
}

int snapshot_commit(const char *path, const struct snapshot *s, const struct sharding *cut,
                    char why[WHY_SIZE]) {
    char text[MANIFEST_SIZE];
    size_t size = print_manifest(text, s, cut);
    if (write_file(path, text, size, why))
        return -1;
    remove_shards(path, s, cut);
    return 0;
}

static int check_model(const char *path, const struct snapshot *s, const struct snapshot *expected,
                       char why[WHY_SIZE]) {
    if (s->version != VERSION)
        return refuse(why, "snapshot %.300s is of version %ld, this program reads version %d", path,
                      (long)s->version, VERSION);
    if (strncmp(s->model, expected->model, sizeof s->model) ||
        strncmp(s->optimizer, expected->optimizer, sizeof s->optimizer))
        return refuse(why, "snapshot %.200s holds %.127s with %.15s, not %s with %s", path,
                      s->model, s->optimizer, expected->model, expected->optimizer);
    if (s->epochs < 0 || s->step < 0)
        return refuse(why, "snapshot %.300s is corrupt: epoch %ld, step %ld", path, (long)s->epochs,
                      (long)s->step);
    return 0;
}

// Checks what was read, size bytes of it, against what was expected.
static int check(const char *path, const struct snapshot *s, size_t size,
                 const struct snapshot *expected, char why[WHY_SIZE]) {
    uint32_t crc;
    if (size < sizeof *s || memcmp(s->magic, MAGIC, sizeof MAGIC))
        return refuse(why, "%.300s is no snapshot, or a truncated one", path);
    if (check_model(path, s, expected, why))
        return -1;
    if (s->parameters != expected->parameters || s->states != expected->states ||
        size != bytes_before_crc(s) + sizeof crc)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size", path);
    memcpy(&crc, (const char *)s + size - sizeof crc, sizeof crc);
    if (crc != (uint32_t)crc32_z(0, (const unsigned char *)s, size - sizeof crc))
        return refuse(why, "snapshot %.300s is corrupt: wrong checksum", path);
    // Adam corrects by the number of steps, and with another batch an epoch has another.
    int same_batch = s->step || (s->epochs && !strncmp(s->optimizer, "adam", strlen("adam")));
    if (s->seed != expected->seed || (same_batch && s->batch != expected->batch))
        return refuse(why, "snapshot %.300s was trained with --seed %ld --batch %ld", path,
                      (long)s->seed, (long)s->batch);
    return 1;
}

static int read_snapshot(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    FILE *file = fopen(path, "rbe");
    if (!file && errno == ENOENT)
        return 0;
    if (!file)
        return refuse(why, "cannot read snapshot %.300s: %s", path, strerror(errno));
    struct snapshot expected = *s;
    size_t size = fread(s, 1, bytes_before_crc(s) + sizeof(uint32_t), file);
    size += fgetc(file) != EOF; // a longer file is wrong too
    fclose(file);
    int result = check(path, s, size, &expected, why);
    s->batch = expected.batch;
    return result;
}

// Whether path is a manifest, and if so where s, which says what is expected, stands, and how it is
// cut.
static int read_manifest(const char *path, struct snapshot *s, size_t parameters,
                         struct sharding *cut, char why[WHY_SIZE]) {
    char text[MANIFEST_SIZE + 1] = "", again[MANIFEST_SIZE], *unit = text + strlen(MANIFEST);
    struct snapshot found = *s;
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
        &found.version, found.model, found.optimizer, &found.seed, &found.batch, &found.epochs,
        &found.step, &found.sums.loss, &found.sums.correct, &found.sums.samples, &cut->shards,
        &length);
    for (unit += length; cut->units < MOST_LAYERS; unit += length) {
        size_t *count = &cut->unit[cut->units];
        if (sscanf(unit, "unit %18zu %n", count, &length) != 1)
            break;
        fit = fit && *count > 0 && *count <= parameters;
        parameters -= *count;
        cut->units++;
    }
    // It is whole if what was read from it would be written as the same bytes, the checksum among
    // them.
    if (found.version == VERSION &&
        (size != print_manifest(again, &found, cut) || memcmp(text, again, size)))
        return refuse(why, "snapshot %.300s is a truncated or corrupt manifest", path);
    if (check_model(path, &found, s, why))
        return -1;
    if (!fit || parameters > 0 || cut->shards < 1 || cut->shards > MOST_SHARDS)
        return refuse(why, "snapshot %.300s is corrupt: its units or shards do not fit the model",
                      path);
    s->epochs = found.epochs;
    s->step = found.step;
    s->sums = found.sums;
    return 1;
}

// The shard that a parameter is in, its place there, and how many values lie there from it on as
// they do in the flat array.
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

// Copies what is in both shards, unless from is NULL, and returns whether anything is.
static int copy_overlap(struct snapshot *to, const struct sharding *own, int number,
                        const struct snapshot *from, const struct sharding *cut, int other) {
    size_t parameters = parameters_of(own), to_place, from_place, to_run, from_run, run;
    int any = 0;
    for (size_t i = 0; i < parameters; i += run) {
        int to_shard = find(own, i, &to_place, &to_run),
            from_shard = find(cut, i, &from_place, &from_run);
        int here = to_shard == number && from_shard == other;
        run = to_run < from_run ? to_run : from_run;
        for (int64_t k = 0; here && from && k <= to->states / to->parameters; k++)
            memcpy(to->values + k * to->parameters + to_place,
                   from->values + k * from->parameters + from_place, run * sizeof(float));
        any |= here;
    }
    return any;
}

int snapshot_load_shard(const char *path, struct snapshot *s, const struct sharding *own,
                        int number, char why[WHY_SIZE]) {
    struct sharding cut = {0};
    size_t parameters = parameters_of(own);
    char name[PATH_SIZE];
    int is_cut = read_manifest(path, s, parameters, &cut, why), result = is_cut;
    if (is_cut < 0)
        return -1;
    if (!is_cut && own->shards == 1)
        return read_snapshot(path, s, why); // without a copy
    if (!is_cut)
        cut = (struct sharding){1, 1, {parameters}};
    size_t size = shard_size(&cut);
    memset(s->values, 0, (s->parameters + s->states) * sizeof(float));
    for (int i = 0; i < cut.shards && result >= 0; i++) {
        if (is_cut && !copy_overlap(s, own, number, NULL, &cut, i))
            continue;
        snprintf(name, sizeof name, "%s", path);
        if (is_cut)
            shard_path(name, path, s, &cut, i);
        struct snapshot *file =
            snapshot_new(s->model, s->optimizer, size, s->states / s->parameters * size, 1);
        file->seed = s->seed;
        file->batch = s->batch;
        result = read_snapshot(name, file, why);
        if (is_cut && result == 0)
            result = refuse(why, "snapshot %.200s lacks its shard %.200s: %s", path, name,
                            strerror(ENOENT));
        if (is_cut && result == 1 && (file->epochs != s->epochs || file->step != s->step))
            result =
                refuse(why, "snapshot %.200s: its shard %.200s is of another step", path, name);
        if (result == 1) {
            memcpy(s, file, offsetof(struct snapshot, parameters));
            copy_overlap(s, own, number, file, &cut, i);
        }
        free(file);
    }
    return result;
}

int snapshot_load(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return snapshot_load_shard(path, s, &(struct sharding){1, 1, {s->parameters}}, 0, why);
}
