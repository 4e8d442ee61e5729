#include "zoo/data/sources.h"
#include <stdio.h>

#define TARGET "make data SET=cifar10"
#define AGAIN "delete the file and run " TARGET

enum { SIDE = 32, PIXELS = SIDE * SIDE, CHANNELS = 3, VALUES = PIXELS * CHANNELS };
enum { TRAINING_FILES = 5, MOST_RECORDS = 10000, HIGHEST_LABEL = 9 };

// Appends the image of a record, and stores its three planes pixel by pixel.
static void append(struct dataset *set, const uint8_t record[1 + VALUES]) {
    uint8_t *values = set->values + set->count * VALUES;
    set->labels[set->count++] = record[0];
    for (int p = 0; p < PIXELS; p++)
        for (int c = 0; c < CHANNELS; c++)
            values[p * CHANNELS + c] = record[1 + c * PIXELS + p];
}

static int read_records(struct dataset *set, gzFile file, const char *path, char why[WHY_SIZE]) {
    uint8_t record[1 + VALUES];
    for (int i = 0;; i++) {
        long size = data_read(file, record, sizeof record);
        if (size == 0 && i > 0)
            return 0;
        if (size < 0)
            return refuse(why, "%s: truncated or corrupt in or after record %d; " AGAIN, path, i);
        if (size < (long)sizeof record)
            return refuse(why, "%s: truncated or corrupt: record %d has %ld of %zu bytes; " AGAIN,
                          path, i, size, sizeof record);
        if (i == MOST_RECORDS)
            return refuse(why, "%s: goes on after %d records; " AGAIN, path, i);
        if (record[0] > HIGHEST_LABEL)
            return refuse(why, "%s: label %d is %u, above 9; " AGAIN, path, i, record[0]);
        append(set, record);
    }
}

static int read_file(struct dataset *set, const char *folder, const char *name,
                     char why[WHY_SIZE]) {
    char path[PATH_MAX];
    gzFile file = data_open(folder, name, TARGET, path, why);
    if (!file)
        return -1;
    int result = read_records(set, file, path, why);
    gzclose(file);
    return result;
}

static const char *file_name(int i, char name[32]) {
    snprintf(name, 32, i < TRAINING_FILES ? "data_batch_%d.bin" : "test_batch.bin", i + 1);
    return name;
}

static int read_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    int files = test ? 1 : TRAINING_FILES;
    size_t first = 0;
    char name[32];
    if (data_allocate(set, (size_t)files * MOST_RECORDS, (struct shape){SIDE, SIDE, CHANNELS}, why))
        return -1;
    set->count = 0; // so far; memory that no image fills costs nothing
    for (int i = 0; i < files; i++) {
        size_t before = set->count;
        if (read_file(set, folder, file_name(test ? TRAINING_FILES : i, name), why))
            return -1;
        if (i == 0)
            first = set->count;
        if (set->count - before != first)
            return refuse(why, "%s/%s: has %zu images, but data_batch_1.bin has %zu; " AGAIN,
                          folder, name, set->count - before, first);
    }
    return 0;
}

// One file is enough: read_split then says which one is missing.
static int found(const char *folder) {
    char name[32];
    for (int i = 0; i <= TRAINING_FILES; i++)
        if (data_exists(folder, file_name(i, name)))
            return 1;
    return 0;
}

const struct data_source cifar_files = {found, read_split, 1, 10, "images", NULL};
