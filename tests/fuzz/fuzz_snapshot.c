// Fuzzes the snapshot reader. The first byte of the input says whether the checksum of the rest, the
// file, is made right: else hardly any input would come past it.
#include "../../common/error.h"
#include "../../common/snapshot.h"
#include <assert.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

static char path[PATH_MAX];

static void remove_file(void) {
    unlink(path);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    snprintf(path, sizeof path, "%s/fuzz_snapshot-XXXXXX", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    int fd = mkstemp(path);
    assert(fd >= 0);
    close(fd);
    return atexit(remove_file);
}

// A file that is accepted is what was expected, and all of it has been read.
static void check(const struct snapshot *s, const struct snapshot *expected, const uint8_t *bytes,
                  size_t size) {
    uint32_t crc;
    assert(size == sizeof *s + 4 * sizeof(float) + sizeof crc);
    memcpy(&crc, bytes + size - sizeof crc, sizeof crc);
    assert(crc == (uint32_t)crc32_z(0, bytes, size - sizeof crc));
    struct snapshot *file = malloc(size);
    assert(file);
    memcpy(file, bytes, size);
    assert(file->step == 0 || file->batch == expected->batch);
    file->batch = expected->batch;
    assert(memcmp(s, file, size) == 0);
    assert(!memcmp(s->model, expected->model, strlen(expected->model) + 1));
    assert(!memcmp(s->optimizer, expected->optimizer, strlen(expected->optimizer) + 1));
    assert(s->version == expected->version && s->seed == expected->seed && s->batch == expected->batch);
    assert(s->parameters == expected->parameters && s->states == expected->states);
    free(file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char why[WHY_SIZE] = "";
    if (size == 0)
        return 0;
    int mend = data[0] & 1;
    uint8_t *bytes = malloc(size--); // one more than needed, as malloc(0) may give NULL
    assert(bytes);
    memcpy(bytes, data + 1, size);
    if (mend && size >= 4) {
        uint32_t crc = (uint32_t)crc32_z(0, bytes, size - 4);
        memcpy(bytes + size - 4, &crc, sizeof crc);
    }
    FILE *file = fopen(path, "wb");
    assert(file && fwrite(bytes, 1, size, file) == size);
    assert(fclose(file) == 0);

    struct snapshot *expected = snapshot_new("mlp 1-2", "sgd", 2, 2);
    struct snapshot *s = snapshot_new("mlp 1-2", "sgd", 2, 2);
    s->seed = expected->seed = 7;
    s->batch = expected->batch = 64;
    int result = snapshot_load(path, s, why);
    assert(result == 1 || result == -1);
    if (result == 1)
        check(s, expected, bytes, size);
    else
        assert(strstr(why, path) && !strchr(why, '\n'));
    free(s);
    free(expected);
    free(bytes);
    return 0;
}
