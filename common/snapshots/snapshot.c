#include "common/snapshots/snapshot.h"
#include "common/base/options.h"
#include "common/base/say.h"
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/snapshots/snapshot_file.h"
#include "common/training/optimizer.h"
#include "common/training/training_options.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define MAGIC "SNAPSHOT"
enum { MOST_STATES = 16 }; // floats of a parameter's optimizer state, more than any optimizer has

// A file begins with these bytes of a snapshot. The values follow.
enum { HEADER_SIZE = sizeof(struct snapshot) - offsetof(struct snapshot, magic) };
_Static_assert(HEADER_SIZE == 1256, "no padding");

static unsigned char *header(const struct snapshot *s) {
    return (unsigned char *)s + offsetof(struct snapshot, magic);
}

static size_t value_bytes(const struct snapshot *s) {
    return (s->parameters + s->state_size) * sizeof(float);
}

struct snapshot *snapshot_like(const struct snapshot *run, size_t parameters, size_t state_size) {
    struct snapshot *s = calloc(1, sizeof *s + (parameters + state_size) * sizeof(float));
    if (!s)
        fail("no memory for a snapshot of %zu values", parameters + state_size);
    *s = *run;
    s->parameters = parameters;
    s->state_size = state_size;
    return s;
}

struct snapshot *snapshot_new(const char *model, const char *optimizer, long seed, long batch,
                              size_t parameters, size_t state_size) {
    struct snapshot run = {.version = SNAPSHOT_VERSION, .seed = seed, .batch = batch};
    memcpy(run.magic, MAGIC, sizeof run.magic);
    snprintf(run.model, sizeof run.model, "%s", model);
    snprintf(run.optimizer, sizeof run.optimizer, "%s", optimizer);
    return snapshot_like(&run, parameters, state_size);
}

struct snapshot *snapshot_of_run(const char *model, const struct optimizer *o, size_t parameters) {
    struct snapshot *s = snapshot_new(model, o->name, opt.seed, opt.batch, parameters,
                                      o->state_per_parameter * parameters);
    struct conditions *c = &s->conditions;
    snprintf(c->data, sizeof c->data, "%s", data_contents);
    snprintf(c->settings, sizeof c->settings, "%s", o->text);
    options_list_changes(c->settings, sizeof c->settings);
    return s;
}

void print_resumed(const char *path, const struct snapshot *s, int finished) {
    long epochs = s->progress.epochs, steps = s->progress.step;
    say("resumed   %s: %ld epoch%s and %ld step%s are done%s\n", path, epochs, PLURAL(epochs),
        steps, PLURAL(steps), finished ? "; nothing is left to do" : "");
    if (*s->settings_before)
        say("note      differs from the snapshot: %s; before: %s\n", s->conditions.settings,
            s->settings_before);
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

static uint32_t checksum(const struct snapshot *found, const float *values) {
    uLong crc = crc32_z(0, header(found), HEADER_SIZE);
    return crc32_z(crc, (const unsigned char *)values, value_bytes(found));
}

int snapshot_write(const char *path, const struct snapshot *s, char why[WHY_SIZE]) {
    uint32_t crc = checksum(s, s->values);
    const struct iovec parts[] = {{header(s), HEADER_SIZE + value_bytes(s)}, {&crc, sizeof crc}};
    return write_whole(path, parts, 2, why);
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

int snapshot_check(const char *path, const struct snapshot *found, const struct snapshot *expected,
                   char why[WHY_SIZE]) {
    if (found->version != SNAPSHOT_VERSION)
        return refuse(why,
                      "snapshot %.300s is of version %ld, this program reads version %d: finish "
                      "that run with the program that saved it, or choose another --snapshot",
                      path, (long)found->version, SNAPSHOT_VERSION);
    if (strncmp(found->model, expected->model, sizeof found->model) ||
        strncmp(found->optimizer, expected->optimizer, sizeof found->optimizer))
        return refuse(
            why,
            "snapshot %.200s holds %.127s with %.15s, not %s with %s: give the options of "
            "that model, or another --snapshot",
            path, found->model, found->optimizer, expected->model, expected->optimizer);
    return 0;
}

int snapshot_accept(const char *path, const struct snapshot *found, struct snapshot *s,
                    char why[WHY_SIZE]) {
    const struct progress *p = &found->progress;
    const struct conditions *a = &found->conditions, *b = &s->conditions;
    char data[sizeof a->data]; // of the file
    if (p->epochs < 0 || p->step < 0)
        return refuse(why, "snapshot %.300s is corrupt: epoch %ld, step %ld; " RESTORE_IT, path,
                      (long)p->epochs, (long)p->step);
    // With a different batch size, an epoch has a different number of steps.
    int same_batch = p->step || (p->epochs && optimizer_counts_steps(s->optimizer));
    if (found->seed != s->seed || (same_batch && found->batch != s->batch))
        return refuse(why,
                      "snapshot %.300s was trained with --seed %ld --batch %ld: give these, or "
                      "another --snapshot",
                      path, (long)found->seed, (long)found->batch);
    snprintf(data, sizeof data, "%.383s", a->data);
    make_printable(data);
    size_t part = options_difference(data, b->data);
    if (strcmp(data, b->data))
        return refuse(why,
                      "snapshot %.200s was trained with \"%.*s\", and the data here has \"%.*s\": "
                      "give the same data, or another --snapshot",
                      path, OPTION_PART(data + part), OPTION_PART(b->data + part));
    s->progress = *p;
    int differ = strncmp(a->settings, b->settings, sizeof a->settings);
    snprintf(s->settings_before, sizeof s->settings_before, "%.639s", differ ? a->settings : "");
    make_printable(s->settings_before);
    return 0;
}

// Opens the file, and reads its header. Returns 1, or 0 if there is no such file, or -1 with the
// reason in why. After 1, the caller closes the file.
static int open_file(const char *path, FILE **file, struct snapshot *found, char why[WHY_SIZE]) {
    *file = fopen(path, "rbe");
    if (!*file && errno == ENOENT)
        return 0;
    if (!*file)
        return refuse(why, "cannot read snapshot %.300s: %s", path, strerror(errno));
    memset(found, 0, sizeof *found);
    if (fread(header(found), HEADER_SIZE, 1, *file) == 1 &&
        !memcmp(found->magic, MAGIC, sizeof found->magic))
        return 1;
    fclose(*file);
    return refuse(why, "%.300s is no snapshot, or a truncated one; " RESTORE_IT, path);
}

int snapshot_read_header(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    FILE *file;
    int result = open_file(path, &file, s, why);
    if (result < 1)
        return result;
    fclose(file);
    s->model[sizeof s->model - 1] = 0; // in a damaged file, the texts may have no end
    s->optimizer[sizeof s->optimizer - 1] = 0;
    if (s->parameters < 1 || s->state_size % s->parameters ||
        s->state_size / s->parameters > MOST_STATES)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size; " RESTORE_IT,
                      path);
    return snapshot_check(path, s, s, why) ? -1 : 1;
}

int snapshot_read(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    FILE *file;
    struct snapshot found;
    uint32_t crc = 0;
    if (!device_computes())
        return refuse(why, "--snapshot %.200s: with CPU_DEVICE_COMPUTE=0 there is nothing to save",
                      path);
    int result = open_file(path, &file, &found, why);
    if (result < 1)
        return result;
    int complete = fread(s->values, 1, value_bytes(s), file) == value_bytes(s) &&
                   fread(&crc, sizeof crc, 1, file) == 1 && fgetc(file) == EOF;
    fclose(file);
    if (snapshot_check(path, &found, s, why))
        return -1;
    if (found.parameters != s->parameters || found.state_size != s->state_size || !complete)
        return refuse(why, "snapshot %.300s is truncated or corrupt: wrong size; " RESTORE_IT,
                      path);
    if (crc != checksum(&found, s->values))
        return refuse(why, "snapshot %.300s is corrupt: wrong checksum; " RESTORE_IT, path);
    return snapshot_accept(path, &found, s, why) ? -1 : 1;
}

const struct snapshot_files *snapshot_files;

int snapshot_save(const char *name, const struct snapshot *s, char why[WHY_SIZE]) {
    char path[PATH_SIZE];
    follow_links(path, name);
    if (snapshot_write(path, s, why))
        return -1;
    if (snapshot_files)
        snapshot_files->remove(path);
    return 0;
}

int snapshot_identify(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return snapshot_files ? snapshot_files->identify(path, s, why)
                          : snapshot_read_header(path, s, why);
}

int snapshot_load(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    return snapshot_files ? snapshot_files->load(path, s, why) : snapshot_read(path, s, why);
}
