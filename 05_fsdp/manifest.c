#include "05_fsdp/manifest.h"
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

static const char MANIFEST[] = "MANIFEST ";

size_t print_save(char text[MANIFEST_SIZE], const struct snapshot *s,
                  const struct sharding *sharding) {
    const struct progress *p = &s->progress;
    const struct conditions *c = &s->conditions;
    int size =
        snprintf(text, MANIFEST_SIZE,
                 "%s%d\nmodel %.127s\noptimizer %.15s\nseed %ld\nbatch %ld\nepochs %ld\nstep %ld\n"
                 "loss %.17g\ncorrect %.17g\nsamples %.17g\nshards %d\n"
                 "data:%.383s\nsettings:%.639s\n",
                 MANIFEST, SNAPSHOT_VERSION, s->model, s->optimizer, (long)s->seed, (long)s->batch,
                 (long)p->epochs, (long)p->step, p->sums.loss, p->sums.correct, p->sums.samples,
                 sharding->shards, c->data, c->settings);
    for (int i = 0; i < sharding->units; i++) {
        const struct division *d = &sharding->division[i];
        size += snprintf(text + size, MANIFEST_SIZE - size, "unit %zu", sharding->unit[i]);
        if (d->first || d->shards || d->columns || d->copies)
            size += snprintf(text + size, MANIFEST_SIZE - size,
                             " first %d shards %d columns %d copies %d", d->first, d->shards,
                             d->columns, d->copies);
        size += snprintf(text + size, MANIFEST_SIZE - size, "\n");
    }
    return size;
}

size_t print_manifest(char text[MANIFEST_SIZE], const struct snapshot *s,
                      const struct manifest *manifest) {
    size_t size = print_save(text, s, &manifest->sharding);
    for (int i = 0; i < manifest->sharding.shards; i++)
        size += sprintf(text + size, "shard %08x\n", manifest->checksums[i]);
    uint32_t crc = crc32_z(0, (unsigned char *)text, size);
    return size + snprintf(text + size, MANIFEST_SIZE - size, "crc32 %08x\n", crc);
}

// Reads the lines of a manifest, after its first word. Stops at a line that is not as expected, so
// the results may be incomplete.
static void parse_lines(const char *text, struct snapshot *found, struct manifest *manifest) {
    struct sharding *sharding = &manifest->sharding;
    struct progress *p = &found->progress;
    struct conditions *c = &found->conditions;
    int length = 0, more = 0;
    sscanf(
        text,
        "%18ld model %127[^\n] optimizer %15[^\n] seed %18ld batch %18ld epochs %18ld step %18ld "
        "loss %lf correct %lf samples %lf shards %9d data:%383[^\n] settings:%639[^\n] %n",
        &found->version, found->model, found->optimizer, &found->seed, &found->batch, &p->epochs,
        &p->step, &p->sums.loss, &p->sums.correct, &p->sums.samples, &sharding->shards, c->data,
        c->settings, &length);
    text += length;
    for (; sharding->units < MOST_UNITS; text += more, sharding->units++) {
        struct division *d = &sharding->division[sharding->units];
        if (sscanf(text, "unit %18zu %n", &sharding->unit[sharding->units], &length) != 1)
            break;
        text += length;
        more = 0;
        sscanf(text, "first %9d shards %9d columns %9d copies %9d %n", &d->first, &d->shards,
               &d->columns, &d->copies, &more);
    }
    for (int i = 0; i < MOST_SHARDS; i++, text += more)
        if (sscanf(text, "shard %8x %n", &manifest->checksums[i], &more) != 1)
            break;
}

int read_manifest(const char *path, struct snapshot *found, struct manifest *manifest,
                  char why[WHY_SIZE]) {
    static char text[MANIFEST_SIZE + 1], again[MANIFEST_SIZE];
    FILE *file = fopen(path, "rbe");
    size_t size = file ? fread(text, 1, MANIFEST_SIZE, file) : 0;
    int failed = file ? ferror(file) : errno != ENOENT, reason = errno;
    text[size] = 0;
    if (file)
        fclose(file);
    if (failed)
        return refuse(why, "cannot read snapshot %.300s: %s", path, strerror(reason));
    if (strncmp(text, MANIFEST, strlen(MANIFEST)))
        return 0;
    memset(found, 0, sizeof *found);
    memset(manifest, 0, sizeof *manifest);
    found->version = SNAPSHOT_VERSION;
    parse_lines(text + strlen(MANIFEST), found, manifest);
    // The manifest is complete if writing its contents again gives the same bytes, including the
    // checksum.
    if (found->version == SNAPSHOT_VERSION &&
        (manifest->sharding.shards < 1 || manifest->sharding.shards > MOST_SHARDS ||
         size != print_manifest(again, found, manifest) || memcmp(text, again, size)))
        return refuse(why, "snapshot %.300s is a truncated or corrupt manifest; " RESTORE_IT, path);
    return 1;
}
