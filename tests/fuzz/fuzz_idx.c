// Fuzzes the IDX reader. The first byte of the input says which of the four files of a data set the
// rest is, and whether its dimensions are cut down below 256: else most inputs claim far more bytes
// than they have. The other files are good. A set that loads must be usable, and one that does not
// must say why.
#include "common/base/error.h"
#include "common/data/data.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 4 };
#include "tests/fuzz/folder.h"

static const struct {
    const char *name;
    size_t header, size;
    uint8_t bytes[32];
} good[FILES] = {
    {"train-images-idx3-ubyte", 16, 24, {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                         0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}},
    {"train-labels-idx1-ubyte", 8, 10, {0, 0, 8, 1, 0, 0, 0, 2, 0, 9}},
    {"t10k-images-idx3-ubyte", 16, 24, {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                        0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8}},
    {"t10k-labels-idx1-ubyte", 8, 10, {0, 0, 8, 1, 0, 0, 0, 2, 0, 9}},
};

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    make_folder("fuzz_idx");
    for (int i = 0; i < FILES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%s", folder, good[i].name);
        put(paths[i], good[i].bytes, good[i].size);
    }
    return 0;
}

static void check(const struct dataset *set) {
    unsigned sum = 0;
    assert(set->count > 0 && set->inputs > 0);
    assert(isfinite(set->mean[0]) && isfinite(set->deviation[0]) && set->deviation[0] > 0);
    for (size_t i = 0; i < set->count; i++)
        assert(set->labels[i] < set->classes);
    for (size_t i = 0; i < set->count * (size_t)set->inputs; i++)
        sum += set->values[i]; // AddressSanitizer looks whether they are all there
    assert(sum <= 255 * set->count * (size_t)set->inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dataset train, test;
    char why[WHY_SIZE] = "";
    if (size == 0)
        return 0;
    int fuzzed = data[0] % FILES, cut_down = data[0] & FILES;
    uint8_t *bytes = malloc(size--); // one more than needed, as malloc(0) may give NULL
    assert(bytes);
    memcpy(bytes, data + 1, size);
    for (size_t i = 4; cut_down && i < size && i < good[fuzzed].header; i++)
        if (i % 4 != 3) // big-endian
            bytes[i] = 0;
    put(paths[fuzzed], bytes, size);
    free(bytes);
    const char *from = folder;
    if (data_load(&train, &test, &from, why)) {
        assert(strstr(why, folder) && !strchr(why, '\n'));
    } else {
        check(&train);
        check(&test);
        assert(train.inputs == test.inputs);
    }
    free(train.values);
    free(train.labels);
    free(test.values);
    free(test.labels);
    put(paths[fuzzed], good[fuzzed].bytes, good[fuzzed].size);
    return 0;
}
