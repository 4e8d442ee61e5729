// Fuzzes the snapshot reader. The first byte of the input says whether the checksum of the rest, a
// file or a manifest, is made right: else hardly any input would come past it. Shards that a
// manifest may name lie beside it: of one unit, cut in two.
#include "05_fsdp/shards.h"
#include "common/base/error.h"
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
static const struct conditions conditions = {"d", "sgd"};

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
    strcpy(shard->conditions.settings, "adam"); // other ones than those of the run
    for (int number = 0; number < 2; number++) {
        shard->values[0] = (float)(number + 1);
        shard->values[1] = (float)(number + 3);
        int failed = snapshot_save_shard(path, shard, &halves, number, why);
        assert(!failed);
    }
    free(shard);
    return atexit(remove_files);
}

// Returns the result of a reader, which gives a reason in one line if it refuses the file.
static int checked(int result, const char why[WHY_SIZE]) {
    assert(result == 1 || (result == -1 && strstr(why, path) && !strchr(why, '\n')));
    return result;
}

// If one reader accepts the whole, all accept what they read of it. The second half is that of the
// whole.
static void check_readers(void) {
    char why[WHY_SIZE] = "";
    struct snapshot *whole = room(2), *half = room(1), found;
    int accepted = checked(snapshot_load(path, whole, why), why);
    int of_half = checked(snapshot_load_shard(path, half, &halves, 1, why), why);
    int identified = checked(snapshot_identify(path, &found, why), why);
    assert(accepted == -1 || (of_half == 1 && identified == 1));
    if (accepted == 1) {
        assert(whole->progress.epochs >= 0 && whole->progress.step >= 0);
        assert(strlen(whole->settings_before) < sizeof whole->settings_before);
        assert(memcmp(half, whole, offsetof(struct snapshot, parameters)) == 0);
        assert(memcmp(&half->values[0], &whole->values[1], sizeof(float)) == 0);
        assert(memcmp(&half->values[1], &whole->values[3], sizeof(float)) == 0);
        assert(strcmp(found.model, whole->model) == 0 && found.parameters == whole->parameters);
    }
    free(whole);
    free(half);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
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

    free(bytes);
    check_readers();
    return 0;
}
