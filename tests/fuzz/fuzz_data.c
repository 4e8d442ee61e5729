// Fuzzes the readers of images: those of IDX files and of CIFAR-10. The first byte of the input
// says which file of the two data sets the rest is, and whether the dimensions of an IDX file are
// cut down below 256: else most inputs claim far more bytes than they have. The other files are
// good. A set that loads must be usable, and one that does not must say why.
#include "common/base/error.h"
#include "common/data/data.h"
#include <assert.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 10, IDX_FILES = 4, CUT_DOWN = 128, RECORD = 1 + 3 * 32 * 32 };

// The names of the files, in the folders of their sets.
static const char *const names[FILES] = {
    "idx/train-images-idx3-ubyte", "idx/train-labels-idx1-ubyte", "idx/t10k-images-idx3-ubyte",
    "idx/t10k-labels-idx1-ubyte",  "cifar/data_batch_1.bin",      "cifar/data_batch_2.bin",
    "cifar/data_batch_3.bin",      "cifar/data_batch_4.bin",      "cifar/data_batch_5.bin",
    "cifar/test_batch.bin",
};
static const uint8_t images[] = {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2,
                                 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8};
static const uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 0, 9};
static char folder[PATH_MAX];

static const char *path_of(const char *name) {
    static char path[PATH_MAX + 64];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(int number, const uint8_t *bytes, size_t size) {
    FILE *file = fopen(path_of(names[number]), "wb");
    assert(file && fwrite(bytes, 1, size, file) == size);
    assert(fclose(file) == 0);
}

static void put_good(int number) {
    uint8_t record[RECORD];
    for (int i = 0; i < RECORD; i++)
        record[i] = (uint8_t)(i * 7 + 9);
    if (number >= IDX_FILES)
        put(number, record, RECORD);
    else if (number % 2 == 0)
        put(number, images, sizeof images);
    else
        put(number, labels, sizeof labels);
}

static void remove_files(void) {
    for (int i = 0; i < FILES; i++)
        unlink(path_of(names[i]));
    rmdir(path_of("idx"));
    rmdir(path_of("cifar"));
    rmdir(folder);
}

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
    snprintf(folder, sizeof folder, "%s/fuzz_data-XXXXXX",
             getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
    assert(mkdtemp(folder));
    assert(!mkdir(path_of("idx"), 0700) && !mkdir(path_of("cifar"), 0700));
    for (int i = 0; i < FILES; i++)
        put_good(i);
    return atexit(remove_files);
}

static void check(const struct dataset *set) {
    unsigned sum = 0;
    assert(set->count > 0 && set->inputs > 0);
    for (int c = 0; c < set->shape.channels; c++)
        assert(isfinite(set->mean[c]) && isfinite(set->deviation[c]) && set->deviation[c] > 0);
    for (size_t i = 0; i < set->count; i++)
        assert(set->labels[i] < set->classes);
    for (size_t i = 0; i < set->count * (size_t)set->inputs; i++)
        sum += set->values[i]; // AddressSanitizer looks whether they are all there
    assert(sum <= 255 * set->count * (size_t)set->inputs);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct dataset train, test;
    char why[WHY_SIZE] = "", set[PATH_MAX + 64];
    if (size == 0)
        return 0;
    int number = data[0] % CUT_DOWN % FILES, idx = number < IDX_FILES;
    uint8_t *bytes = malloc(size--); // one more than needed, as malloc(0) may give NULL
    assert(bytes);
    memcpy(bytes, data + 1, size);
    size_t header = !idx || data[0] < CUT_DOWN ? 0 : number % 2 ? 8 : 16;
    for (size_t i = 4; i < size && i < header; i++)
        if (i % 4 != 3) // big-endian
            bytes[i] = 0;
    put(number, bytes, size);
    free(bytes);
    snprintf(set, sizeof set, "%s", path_of(idx ? "idx" : "cifar"));
    const char *from = set;
    int first = dup(0); // data_load opens this one and those after it
    close(first);
    if (data_load(&train, &test, &from, why)) {
        assert(strstr(why, set) && !strchr(why, '\n'));
    } else {
        check(&train);
        check(&test);
        assert(train.inputs == test.inputs);
    }
    for (int file = first; file < first + FILES; file++)
        close(file);
    if (test.files != train.files)
        free(test.files);
    free(train.files);
    free(train.values);
    free(train.labels);
    free(test.values);
    free(test.labels);
    put_good(number);
    return 0;
}
