// Fuzzes the reader of CIFAR-10. The first byte of the input says which of the six files of a data
// set the rest is. The other files have one good record. A set that loads must be usable, and one
// that does not must say why.
#include "common/base/error.h"
#include "common/data/data.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILES = 6, TEST = FILES - 1, RECORD = 1 + 3 * 32 * 32 };
#include "tests/fuzz/folder.h"

static uint8_t good[RECORD];
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    make_folder("fuzz_cifar");
    for (int i = 0; i < RECORD; i++)
        good[i] = (uint8_t)(i * 7 + 9);
    for (int i = 0; i < FILES; i++) {
        if (i == TEST)
            snprintf(paths[i], sizeof paths[i], "%s/test_batch.bin", folder);
        else
            snprintf(paths[i], sizeof paths[i], "%s/data_batch_%d.bin", folder, i + 1);
        put(paths[i], good, RECORD);
    }
    return 0;
}

static void check(const struct dataset *set) {
    unsigned sum = 0;
    assert(set->count > 0 && set->inputs == RECORD - 1 && set->shape.channels == 3);
    for (int c = 0; c < 3; c++)
        assert(isfinite(set->mean[c]) && isfinite(set->deviation[c]) && set->deviation[c] > 0);
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
    int fuzzed = data[0] % FILES;
    put(paths[fuzzed], data + 1, size - 1);
    const char *from = folder;
    if (data_load(&train, &test, &from, why)) {
        assert(strstr(why, folder) && !strchr(why, '\n'));
    } else {
        check(&train);
        check(&test);
        assert(train.inputs == test.inputs);
        assert(fuzzed == TEST || train.count == TEST); // as many as the good files have
    }
    free(train.values);
    free(train.labels);
    free(test.values);
    free(test.labels);
    put(paths[fuzzed], good, RECORD);
    return 0;
}
