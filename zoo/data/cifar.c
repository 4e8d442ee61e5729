#include "zoo/data/sources.h"
#include <stdio.h>

#define TARGET "make data SET=cifar10"
#define AGAIN "delete the file and run " TARGET

enum {
    SIDE = 32,
    PIXELS = SIDE * SIDE,
    CHANNELS = 3,
    VALUES = PIXELS * CHANNELS,
    RECORD = 1 + VALUES
};
enum { TRAINING_FILES = 5, MOST_RECORDS = 10000, HIGHEST_LABEL = 9 };

static const char *file_name(int i, char name[32]) {
    snprintf(name, 32, i < TRAINING_FILES ? "data_batch_%d.bin" : "test_batch.bin", i + 1);
    return name;
}

struct cifar {
    struct data_file files[TRAINING_FILES];
    size_t records; // of a file
};

static int open_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    int files = test ? 1 : TRAINING_FILES;
    struct cifar *cifar = set->files = data_files(1, sizeof *cifar);
    char name[32];
    for (int i = 0; i < files; i++) {
        struct data_file *f = &cifar->files[i];
        if (data_open(f, folder, file_name(test ? TRAINING_FILES : i, name), TARGET, why))
            return -1;
        size_t records = f->size / RECORD;
        if (f->size % RECORD || !records)
            return refuse(why, "%s: truncated or corrupt: record %zu has %zu of %d bytes; " AGAIN,
                          f->path, records, f->size % RECORD, RECORD);
        if (records > MOST_RECORDS)
            return refuse(why, "%s: goes on after %d records; " AGAIN, f->path, MOST_RECORDS);
        if (i == 0)
            cifar->records = records;
        if (records != cifar->records)
            return refuse(why, "%s: has %zu images, but data_batch_1.bin has %zu; " AGAIN, f->path,
                          records, cifar->records);
    }
    set->count = files * cifar->records;
    set->shape = (struct shape){SIDE, SIDE, CHANNELS};
    return 0;
}

// A record has three planes; the set stores them pixel by pixel.
static int read_records(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                        uint8_t *labels, char why[WHY_SIZE]) {
    const struct cifar *cifar = set->files;
    uint8_t record[RECORD];
    for (size_t i = 0; i < count; i++, values += VALUES) {
        const struct data_file *f = &cifar->files[(first + i) / cifar->records];
        size_t number = (first + i) % cifar->records;
        if (data_read(f, number * RECORD, record, RECORD, why))
            return -1;
        labels[i] = record[0];
        if (labels[i] > HIGHEST_LABEL)
            return refuse(why, "%s: label %zu is %u, above 9; " AGAIN, f->path, number, labels[i]);
        for (int p = 0; p < PIXELS; p++)
            for (int c = 0; c < CHANNELS; c++)
                values[p * CHANNELS + c] = record[1 + c * PIXELS + p];
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

const struct data_source cifar_files = {found, open_split, read_records, 1, 10, "images", NULL};
