// Fuzzes the snapshot reader. The first byte of the input says whether the checksum of the rest, a
// file or a manifest, is made right: else hardly any input would come past it. Shards that a
// manifest may name lie beside it: of one unit, cut in two.
#include "common/base/error.h"
#include "common/snapshots/shards.h"
#include <assert.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { CRC_LINE = sizeof "crc32 01234567\n" - 1 };

static char path[PATH_MAX];
static const struct sharding halves = {2, 1, {2}};
static const struct conditions conditions = {"d", 960, 1, "sgd"};

static struct snapshot *room(size_t parameters) {
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", 7, 64, parameters, parameters);
    s->conditions = conditions;
    return s;
}

// Saving a whole file removes the shards.
static void remove_files(void) {
    char why[WHY_SIZE];
    struct snapshot *s = room(2);
    snapshot_save(path, s, why);
    unlink(path);
    free(s);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/fuzz_snapshot-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int fd = mkstemp(path);
    assert(fd >= 0);
    close(fd);
    struct snapshot *shard = room(shard_size(&halves, 0));
    char why[WHY_SIZE];
    shard->progress.epochs = 3;
    shard->progress.step = 5;
    for (int number = 0; number < 2; number++) {
        shard->values[0] = (float)(number + 1);
        shard->values[1] = (float)(number + 3);
        int failed = snapshot_save_shard(path, shard, &halves, number, why);
        assert(!failed);
    }
    free(shard);
    return atexit(remove_files);
}

// A file that is accepted is what was expected, and all of it has been read.
static void check(const struct snapshot *s, const struct snapshot *expected, const uint8_t *bytes,
                  size_t size) {
    struct {
        char magic[8];
        int64_t version;
        char model[128], optimizer[16];
        int64_t seed, batch;
        struct progress progress;
        int64_t parameters, states;
        struct conditions conditions; // not in version 1
        float values[4];
        uint32_t crc;
    } file = {.version = 0};
    const size_t whole = offsetof(__typeof__(file), crc) + sizeof file.crc;
    const size_t first = offsetof(__typeof__(file), conditions), rest = 5 * sizeof(float);
    assert(size == whole || size == first + rest);
    memcpy(&file, bytes, size - rest);
    memcpy(file.values, bytes + size - rest, rest);
    assert(file.crc == (uint32_t)crc32_z(0, bytes, size - sizeof file.crc));
    assert(memcmp(file.magic, "SNAPSHOT", 8) == 0 && file.version == (size == whole ? 2 : 1));
    if (file.conditions.samples)
        assert(file.conditions.samples == 960 && file.conditions.checksum == 1);
    assert(strlen(s->settings_before) < sizeof s->settings_before);
    assert(file.progress.step <= 960 / 64);
    assert(memcmp(&s->progress, &file.progress, sizeof file.progress) == 0);
    assert(file.progress.epochs >= 0 && file.progress.step >= 0);
    assert(file.progress.step == 0 || file.batch == expected->batch);
    assert(!memcmp(file.model, expected->model, strlen(expected->model) + 1));
    assert(!memcmp(file.optimizer, expected->optimizer, strlen(expected->optimizer) + 1));
    assert(file.seed == expected->seed && file.parameters == 2 && file.states == 2);
    assert(memcmp(s->values, file.values, sizeof file.values) == 0);
    assert(s->seed == expected->seed && s->batch == expected->batch);
    assert(s->parameters == expected->parameters && s->state_size == expected->state_size);
}

// A manifest that is accepted is text, names the shards that are there, and all of it has been
// read.
static void check_manifest(const struct snapshot *s, const uint8_t *bytes, size_t size) {
    static const char *heads[] = {"MANIFEST 1\nmodel mlp 1-2\noptimizer sgd\nseed ",
                                  "MANIFEST 2\nmodel mlp 1-2\noptimizer sgd\nseed "};
    static const char cut[] = "\nunit 2\n",
                      images[] = "\nshards 2\nimages 960\nchecksum 00000001\n";
    int version = bytes[9] - '0';
    size_t before = size - CRC_LINE;
    char line[CRC_LINE + 1];
    snprintf(line, sizeof line, "crc32 %08x\n", (unsigned)crc32_z(0, bytes, before));
    assert(version == 1 || version == 2);
    assert(memcmp(bytes, heads[version - 1], strlen(heads[0])) == 0 &&
           memcmp(bytes + before, line, CRC_LINE) == 0);
    assert(memcmp(bytes + before - strlen(cut), cut, strlen(cut)) == 0);
    assert(memmem(bytes, size, images, version == 1 ? strlen("\nshards 2\n") : strlen(images)));
    assert(s->progress.epochs == 3 && s->progress.step == 5 && s->seed == 7 && s->batch == 64);
    for (int i = 0; i < 4; i++)
        assert(s->values[i] == (float)(i + 1));
}

// The second half is that of the whole, or refused as that is.
static void check_half(const struct snapshot *whole, int accepted) {
    char why[WHY_SIZE] = "";
    struct snapshot *half = room(1);
    int result = snapshot_load_shard(path, half, &halves, 1, why);
    assert(result == accepted);
    if (result == 1) {
        assert(memcmp(half, whole, offsetof(struct snapshot, parameters)) == 0);
        assert(memcmp(&half->values[0], &whole->values[1], sizeof(float)) == 0);
        assert(memcmp(&half->values[1], &whole->values[3], sizeof(float)) == 0);
    }
    free(half);
}

// A snapshot that loads can be identified, with the same result.
static void check_identity(const struct snapshot *whole, int accepted) {
    char why[WHY_SIZE] = "";
    struct snapshot found;
    int result = snapshot_identify(path, &found, why);
    assert(result == 1 || (result == -1 && strstr(why, path) && !strchr(why, '\n')));
    assert(result == 1 || accepted == -1);
    if (accepted == 1)
        assert(strcmp(found.model, whole->model) == 0 && found.parameters == whole->parameters &&
               found.state_size == whole->state_size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[WHY_SIZE] = "";
    if (size == 0)
        return 0;
    int mend = data[0] & 1;
    uint8_t *bytes = malloc(size--); // one more than needed, as malloc(0) may give NULL
    assert(bytes);
    memcpy(bytes, data + 1, size);
    int manifest = size > CRC_LINE && memcmp(bytes, "MANIFEST ", 9) == 0;
    if (mend && manifest) {
        char line[CRC_LINE + 1];
        snprintf(line, sizeof line, "crc32 %08x\n", (unsigned)crc32_z(0, bytes, size - CRC_LINE));
        memcpy(bytes + size - CRC_LINE, line, CRC_LINE);
    } else if (mend && size >= 4) {
        uint32_t crc = (uint32_t)crc32_z(0, bytes, size - 4);
        memcpy(bytes + size - 4, &crc, sizeof crc);
    }
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes, 1, size, file) == size);
    assert(fclose(file) == 0);

    struct snapshot *expected = room(2), *s = room(2);
    int result = snapshot_load(path, s, why);
    assert(result == 1 || result == -1);
    if (result == 1 && manifest)
        check_manifest(s, bytes, size);
    else if (result == 1)
        check(s, expected, bytes, size);
    else
        assert(strstr(why, path) && !strchr(why, '\n'));
    check_half(s, result);
    check_identity(s, result);
    free(s);
    free(expected);
    free(bytes);
    return 0;
}
