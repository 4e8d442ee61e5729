#include "common/snapshots/snapshot.h"
#include "common/base/minmax.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/snapshots/snapshot_file.h"
#include "common/training/catalogue.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

// The header of a file. The values and a CRC-32 (zlib's) of all bytes before it follow.
struct header {
    char magic[8];
    int64_t version;
    char model[128], optimizer[16];
    int64_t seed, batch;
    struct progress progress;
    int64_t parameters, state_size;
    struct conditions conditions;
};
#define MAGIC "SNAPSHOT"
enum { MOST_STATES = 16 }; // floats of a parameter's optimizer state, more than any optimizer has
_Static_assert(sizeof(struct header) == 1016, "no padding");

static size_t value_bytes(const struct snapshot *s) {
    return (s->parameters + s->state_size) * sizeof(float);
}

struct snapshot *snapshot_new(const char *model, const char *optimizer, long seed, long batch,
                              size_t parameters, size_t state_size) {
    struct snapshot *s = calloc(1, sizeof *s + (parameters + state_size) * sizeof(float));
    if (!s)
        fail("no memory for a snapshot of %zu values", parameters + state_size);
    snprintf(s->model, sizeof s->model, "%s", model);
    snprintf(s->optimizer, sizeof s->optimizer, "%s", optimizer);
    s->seed = seed;
    s->batch = batch;
    s->parameters = parameters;
    s->state_size = state_size;
    return s;
}

struct snapshot *snapshot_like(const struct snapshot *run, size_t parameters, size_t state_size) {
    struct snapshot *s =
        snapshot_new(run->model, run->optimizer, run->seed, run->batch, parameters, state_size);
    s->conditions = run->conditions;
    s->progress = run->progress;
    return s;
}

void snapshot_from_device(struct snapshot *s, const float *parameters,
                          const float *optimizer_state) {
    CUDA_CHECK(
        cudaMemcpy(s->values, parameters, s->parameters * sizeof(float), cudaMemcpyDeviceToHost));
    CUDA_CHECK(cudaMemcpy(s->values + s->parameters, optimizer_state, s->state_size * sizeof(float),
                          cudaMemcpyDeviceToHost));
}

void snapshot_to_device(const struct snapshot *s, float *parameters, float *optimizer_state) {
    CUDA_CHECK(
        cudaMemcpy(parameters, s->values, s->parameters * sizeof(float), cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMemcpy(optimizer_state, s->values + s->parameters, s->state_size * sizeof(float),
                          cudaMemcpyHostToDevice));
}

int write_whole(const char *path, const struct iovec *parts, int count, char why[WHY_SIZE]) {
    char temporary[PATH_SIZE];
    snprintf(temporary, sizeof temporary, "%s.tmp", path);
    // A killed run may have left the file, and in a folder that others may write, it may be a link
    // of theirs. So it is removed, and x opens only a new file.
    int blocked = unlink(temporary) && errno != ENOENT;
    FILE *file = blocked ? NULL : fopen(temporary, "wbxe");
    if (!file)
        return refuse(why, "cannot write snapshot %.300s: %s", path, strerror(errno));
    int failed = 0;
    for (int i = 0; i < count && !failed; i++)
        failed = fwrite(parts[i].iov_base, 1, parts[i].iov_len, file) != parts[i].iov_len;
    failed = failed || fflush(file) || fsync(fileno(file));
    int reason = errno;
    fclose(file); // fsync has reported all errors
    if (failed || rename(temporary, path)) {
        refuse(why, "cannot write snapshot %.300s: %s", path, strerror(failed ? reason : errno));
        unlink(temporary);
        return -1;
    }
    // Until the folder is on the disk, too, a power failure may bring the old snapshot back. Not
    // all file systems support this. Either snapshot is complete, so a failure here is no error.
    int folder = open(dirname(temporary), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    fsync(folder);
    close(folder);
    return 0;
}

static uint32_t checksum(const struct header *h, const struct snapshot *s) {
    uLong crc = crc32_z(0, (const unsigned char *)h, sizeof *h);
    return crc32_z(crc, (const unsigned char *)s->values, value_bytes(s));
}

int snapshot_write(const char *path, const struct snapshot *s, char why[WHY_SIZE]) {
    struct header h = {.version = SNAPSHOT_VERSION,
                       .seed = s->seed,
                       .batch = s->batch,
                       .progress = s->progress,
                       .parameters = s->parameters,
                       .state_size = s->state_size,
                       .conditions = s->conditions};
    memcpy(h.magic, MAGIC, sizeof h.magic);
    memcpy(h.model, s->model, sizeof h.model);
    memcpy(h.optimizer, s->optimizer, sizeof h.optimizer);
    uint32_t crc = checksum(&h, s);
    const struct iovec parts[] = {
        {&h, sizeof h}, {(void *)s->values, value_bytes(s)}, {&crc, sizeof crc}};
    return write_whole(path, parts, 3, why);
}

void follow_links(char target[PATH_SIZE], const char *path) {
    enum { MOST_LINKS = 40 }; // as in the kernel
    char link[PATH_MAX];
    ssize_t length;
    snprintf(target, PATH_SIZE, "%s", path);
    for (int i = 0; i < MOST_LINKS && (length = readlink(target, link, sizeof link - 1)) > 0; i++) {
        char *name = *link == '/' || !strrchr(target, '/') ? target : strrchr(target, '/') + 1;
        link[length] = 0;
        snprintf(name, target + PATH_SIZE - name, "%s", link);
    }
}

int snapshot_check(const char *path, long version, const struct snapshot *found,
                   const struct snapshot *expected, char why[WHY_SIZE]) {
    const struct progress *p = &found->progress;
    if (version != SNAPSHOT_VERSION)
        return refuse(why, "snapshot %.300s is of version %ld, this program reads version %d", path,
                      version, SNAPSHOT_VERSION);
    if (strncmp(found->model, expected->model, sizeof found->model) ||
        strncmp(found->optimizer, expected->optimizer, sizeof found->optimizer))
        return refuse(
            why,
            "snapshot %.200s holds %.127s with %.15s, not %s with %s: give the options of "
            "that model, or another --snapshot",
            path, found->model, found->optimizer, expected->model, expected->optimizer);
    if (p->epochs < 0 || p->step < 0)
        return refuse(why, "snapshot %.300s is corrupt: epoch %ld, step %ld", path, (long)p->epochs,
                      (long)p->step);
    return 0;
}

int snapshot_accept(const char *path, const struct snapshot *found, struct snapshot *s,
                    char why[WHY_SIZE]) {
    const struct conditions *a = &found->conditions, *b = &s->conditions;
    long step = found->progress.step, steps = b->samples / max_size(s->batch, 1);
    if (a->samples != b->samples || a->checksum != b->checksum)
        return refuse(why,
                      "snapshot %.200s was trained with %ld %s of %.127s (checksum %08lx), not "
                      "with %ld of %s (checksum %08lx)",
                      path, (long)a->samples, data_samples, a->folder, (unsigned long)a->checksum,
                      (long)b->samples, b->folder, (unsigned long)b->checksum);
    if (step > steps)
        return refuse(why, "snapshot %.300s has %ld steps of an epoch, but %ld %s make only %ld",
                      path, step, (long)b->samples, data_samples, steps);
    s->progress = found->progress;
    if (strncmp(a->settings, b->settings, sizeof a->settings))
        snprintf(s->settings_before, sizeof s->settings_before, "%.639s", a->settings);
    make_printable(s->settings_before);
    return 0;
}

static void copy_header(struct snapshot *s, const struct header *h) {
    memcpy(s->model, h->model, sizeof h->model);
    memcpy(s->optimizer, h->optimizer, sizeof h->optimizer);
    s->progress = h->progress;
    s->conditions = h->conditions;
}

// Checks a file. complete is 1 if its header, values and checksum could be read, and nothing
// followed them.
static int check_file(const char *path, const struct header *h, struct snapshot *s, int complete,
                      uint32_t crc, char why[WHY_SIZE]) {
    struct snapshot found = {.parameters = 0};
    copy_header(&found, h);
    if (memcmp(h->magic, MAGIC, sizeof h->magic))
        return refuse(why, "%.300s is no snapshot, or a truncated one", path);
    if (snapshot_check(path, h->version, &found, s, why))
        return -1;
    if (h->parameters != (int64_t)s->parameters || h->state_size != (int64_t)s->state_size ||
        !complete)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size", path);
    if (crc != checksum(h, s))
        return refuse(why, "snapshot %.300s is corrupt: wrong checksum", path);
    // With a different batch size, an epoch has a different number of steps.
    const struct progress *p = &h->progress;
    int same_batch = p->step || (p->epochs && optimizer_counts_steps(s->optimizer));
    if (h->seed != s->seed || (same_batch && h->batch != s->batch))
        return refuse(why, "snapshot %.300s was trained with --seed %ld --batch %ld", path,
                      (long)h->seed, (long)h->batch);
    return snapshot_accept(path, &found, s, why) ? -1 : 1;
}

// Opens the file, and reads its header, which stays zero if the file is too short to be a snapshot.
// Returns 1, or 0 if there is no such file, or -1 with the reason in why.
static int open_file(const char *path, FILE **file, struct header *h, char why[WHY_SIZE]) {
    *file = fopen(path, "rbe");
    memset(h, 0, sizeof *h);
    if (!*file && errno == ENOENT)
        return 0;
    if (!*file)
        return refuse(why, "cannot read snapshot %.300s: %s", path, strerror(errno));
    if (fread(h, sizeof *h, 1, *file) != 1)
        memset(h, 0, sizeof *h);
    return 1;
}

int snapshot_read_header(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    FILE *file;
    struct header h;
    int result = open_file(path, &file, &h, why);
    if (result < 1)
        return result;
    fclose(file);
    copy_header(s, &h);
    s->seed = h.seed;
    s->batch = h.batch;
    s->parameters = h.parameters;
    s->state_size = h.state_size;
    if (memcmp(h.magic, MAGIC, sizeof h.magic))
        return refuse(why, "%.300s is no snapshot, or a truncated one", path);
    s->model[sizeof s->model - 1] = 0; // in a damaged file, the texts may have no end
    s->optimizer[sizeof s->optimizer - 1] = 0;
    if (h.parameters < 1 || h.state_size < 0 || h.state_size % h.parameters ||
        h.state_size / h.parameters > MOST_STATES)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size", path);
    return snapshot_check(path, h.version, s, s, why) ? -1 : 1;
}

int snapshot_read(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    FILE *file;
    struct header h;
    uint32_t crc = 0;
    if (!device_computes())
        return refuse(why, "--snapshot %.200s: with CPU_DEVICE_COMPUTE=0 there is nothing to save",
                      path);
    int result = open_file(path, &file, &h, why);
    if (result < 1)
        return result;
    int complete = fread(s->values, 1, value_bytes(s), file) == value_bytes(s) &&
                   fread(&crc, sizeof crc, 1, file) == 1 && fgetc(file) == EOF;
    fclose(file);
    return check_file(path, &h, s, complete, crc, why);
}

int snapshot_save(const char *name, const struct snapshot *s, char why[WHY_SIZE]) {
    char path[PATH_SIZE];
    follow_links(path, name);
    if (snapshot_write(path, s, why))
        return -1;
    if (catalogue->remove_shards)
        catalogue->remove_shards(path);
    return 0;
}

int snapshot_identify(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return catalogue->identify_snapshot ? catalogue->identify_snapshot(path, s, why)
                                        : snapshot_read_header(path, s, why);
}

int snapshot_load(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return catalogue->load_snapshot ? catalogue->load_snapshot(path, s, why)
                                    : snapshot_read(path, s, why);
}
