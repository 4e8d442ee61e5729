#include "snapshot.h"
#include "error.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { VERSION = 1 };
static const char MAGIC[8] = "SNAPSHOT";
_Static_assert(offsetof(struct snapshot, values) == 232, "the header of version 1, without padding");

static size_t bytes_before_crc(const struct snapshot *s) {
    return sizeof *s + (size_t)(s->parameters + s->states) * sizeof(float);
}

struct snapshot *snapshot_new(const char *model, const char *optimizer, size_t parameters, size_t states) {
    struct snapshot *s = calloc(1, sizeof *s + (parameters + states + 1) * sizeof(float));
    if (!s)
        fail("no memory for a snapshot of %zu values", parameters + states);
    memcpy(s->magic, MAGIC, sizeof MAGIC);
    s->version = VERSION;
    snprintf(s->model, sizeof s->model, "%s", model);
    snprintf(s->optimizer, sizeof s->optimizer, "%s", optimizer);
    s->parameters = (int64_t)parameters;
    s->states = (int64_t)states;
    return s;
}

int snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    char temporary[PATH_MAX];
    size_t size = bytes_before_crc(s);
    uint32_t crc = crc32_z(0, (unsigned char *)s, size);
    memcpy((char *)s + size, &crc, sizeof crc);
    size += sizeof crc;
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    FILE *file = fopen(temporary, "wbe");
    if (!file)
        return refuse(why, "cannot write snapshot %.300s: %s", path, strerror(errno));
    int failed = fwrite(s, 1, size, file) != size || fflush(file) || fsync(fileno(file));
    int reason = errno;
    fclose(file); // all is on the disk or has failed, so this has nothing new to say
    if (failed || rename(temporary, path)) {
        refuse(why, "cannot write snapshot %.300s: %s", path, strerror(failed ? reason : errno));
        unlink(temporary);
        return -1;
    }
    // Until its folder is on the disk too, a power cut may bring the old snapshot back. Not all file
    // systems can do this, and either snapshot is whole, so a failure is none of ours.
    int folder = open(dirname(temporary), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fsync(folder);
    close(folder);
    return 0;
}

// Checks what was read, size bytes of it, against what was expected.
static int check(const char *path, const struct snapshot *s, size_t size, const struct snapshot *expected,
                 char why[WHY_SIZE]) {
    uint32_t crc;
    if (size < sizeof *s || memcmp(s->magic, MAGIC, sizeof MAGIC))
        return refuse(why, "%.300s is no snapshot, or a truncated one", path);
    if (s->version != VERSION)
        return refuse(why, "snapshot %.300s is of version %ld, this program reads version %d", path,
                      (long)s->version, VERSION);
    if (strncmp(s->model, expected->model, sizeof s->model) ||
        strncmp(s->optimizer, expected->optimizer, sizeof s->optimizer))
        return refuse(why, "snapshot %.200s holds %.127s with %.15s, not %s with %s", path, s->model,
                      s->optimizer, expected->model, expected->optimizer);
    if (s->parameters != expected->parameters || s->states != expected->states ||
        size != bytes_before_crc(s) + sizeof crc)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size", path);
    memcpy(&crc, (const char *)s + size - sizeof crc, sizeof crc);
    if (crc != (uint32_t)crc32_z(0, (const unsigned char *)s, size - sizeof crc))
        return refuse(why, "snapshot %.300s is corrupt: wrong checksum", path);
    if (s->seed != expected->seed || (s->step && s->batch != expected->batch))
        return refuse(why, "snapshot %.300s was trained with --seed %ld --batch %ld", path, (long)s->seed,
                      (long)s->batch);
    return 1;
}

int snapshot_load(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
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
