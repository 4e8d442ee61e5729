// Tests of the reader of CIFAR-10's binary version: small valid sets, and damaged files.
#include "tests/unit/data_folder.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TRAINING_FILES = 5, FILES = 6, PIXELS = 32 * 32, RECORD = 1 + 3 * PIXELS };
enum { TRAIN_RECORDS = 2, TEST_RECORDS = 3, MOST_RECORDS = 10000 };

static const char *const names[FILES] = {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                         "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

// Every value of a record differs from its neighbours, and from the same value of other records.
static uint8_t value(int file, int record, int channel, int pixel) {
    return (uint8_t)(pixel * 7 + pixel / 32 + channel * 85 + record * 11 + file * 40);
}

static uint8_t label(int file, int record) {
    return (uint8_t)((file * 2 + record) % 10);
}

static int records_of(int file) {
    return file < TRAINING_FILES ? TRAIN_RECORDS : TEST_RECORDS;
}

static void fill(uint8_t *bytes, int file, int records) {
    for (int r = 0; r < records; r++) {
        *bytes++ = label(file, r);
        for (int c = 0; c < 3; c++)
            for (int p = 0; p < PIXELS; p++)
                *bytes++ = value(file, r, c, p);
    }
}

static void put_records(int file, int records) {
    uint8_t *bytes = malloc((size_t)records * RECORD);
    assert_non_null(bytes);
    fill(bytes, file, records);
    put(names[file], bytes, (size_t)records * RECORD, "wbT");
    free(bytes);
}

static int make_folder(void **state) {
    (void)state;
    if (new_folder())
        return -1;
    for (int file = 0; file < FILES; file++)
        put_records(file, records_of(file));
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return delete_folder(names, FILES);
}

static void check_image(const struct dataset *set, int image, int file, int record) {
    const uint8_t *values = set->values + (size_t)image * 3 * PIXELS;
    assert_int_equal(set->labels[image], label(file, record));
    for (int p = 0; p < PIXELS; p++)
        for (int c = 0; c < 3; c++)
            if (values[p * 3 + c] != value(file, record, c, p))
                fail_msg("image %d, pixel %d, channel %d: %d, want %d", image, p, c,
                         values[p * 3 + c], value(file, record, c, p));
}

static void check_sets(void) {
    const struct dataset *sets[] = {&train, &test};
    for (int i = 0; i < 2; i++) {
        struct shape s = sets[i]->shape;
        assert_true(s.height == 32 && s.width == 32 && s.channels == 3);
        assert_int_equal(sets[i]->inputs, 3072);
        assert_int_equal(sets[i]->targets, 1);
        assert_int_equal(sets[i]->classes, 10);
    }
    assert_int_equal(train.count, TRAINING_FILES * TRAIN_RECORDS);
    assert_int_equal(test.count, TEST_RECORDS);
    for (int i = 0; i < (int)train.count; i++)
        check_image(&train, i, i / TRAIN_RECORDS, i % TRAIN_RECORDS);
    for (int i = 0; i < (int)test.count; i++)
        check_image(&test, i, TRAINING_FILES, i);
}

// The files hold plane after plane, the set pixel after pixel.
static void planes_become_pixels(void **state) {
    (void)state;
    load(folder);
    check_sets();
}

static void compressed_files(void **state) {
    uint8_t bytes[TEST_RECORDS * RECORD];
    char packed[64];
    (void)state;
    for (int file = 0; file < FILES; file++) {
        snprintf(packed, sizeof packed, "%s.gz", names[file]);
        fill(bytes, file, records_of(file));
        put(packed, bytes, (size_t)records_of(file) * RECORD, "wb");
        unlink(path_of(names[file]));
        load(folder); // with the files before this one compressed, and those after it plain
        check_sets();
    }
}

static void mean_and_deviation_of_each_channel(void **state) {
    (void)state;
    load(folder);
    for (int c = 0; c < 3; c++) {
        double sum = 0, squares = 0, values = TRAINING_FILES * TRAIN_RECORDS * PIXELS;
        for (int file = 0; file < TRAINING_FILES; file++)
            for (int r = 0; r < TRAIN_RECORDS; r++)
                for (int p = 0; p < PIXELS; p++) {
                    sum += value(file, r, c, p) / 255.;
                    squares += pow(value(file, r, c, p) / 255., 2);
                }
        assert_float_equal(train.mean[c], sum / values, 1e-6);
        assert_float_equal(train.deviation[c], sqrt(squares / values - pow(sum / values, 2)), 1e-6);
        assert_true(test.mean[c] == train.mean[c] && test.deviation[c] == train.deviation[c]);
    }
}

// The number of records of the real files; one more is refused.
static void full_files(void **state) {
    (void)state;
    put_records(TRAINING_FILES, MOST_RECORDS);
    load(folder);
    assert_int_equal(test.count, MOST_RECORDS);
    check_image(&test, 0, TRAINING_FILES, 0);
    check_image(&test, MOST_RECORDS - 1, TRAINING_FILES, MOST_RECORDS - 1);
    put_records(TRAINING_FILES, MOST_RECORDS + 1);
    refused("test_batch.bin", "goes on after 10000 records");
}

static void missing_file(void **state) {
    (void)state;
    for (int file = 0; file < FILES; file++) {
        unlink(path_of(names[file]));
        refused(names[file], "make data SET=cifar10");
        put_records(file, records_of(file));
    }
}

// One file is enough to know that the folder should have those of CIFAR-10.
static void single_file(void **state) {
    (void)state;
    for (int file = 1; file < FILES; file++)
        unlink(path_of(names[file]));
    refused("data_batch_2.bin", "make data SET=cifar10");
}

static void folder_in_place_of_a_file(void **state) {
    (void)state;
    for (int file = 0; file < FILES; file += FILES - 1) {
        folder_is_refused(names[file], "delete the file and run make data SET=cifar10");
        put_records(file, records_of(file));
    }
}

// A training file that ends between two records differs from the others in length. The test file
// may have any number of records, but at least one.
static void truncated_files(void **state) {
    static const int sizes[] = {0, 1, 3072, RECORD, RECORD + 1, 2 * RECORD - 1};
    uint8_t bytes[TRAIN_RECORDS * RECORD];
    (void)state;
    for (int file = 0; file < FILES; file++) {
        fill(bytes, file, TRAIN_RECORDS);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            int whole = sizes[i] == RECORD;
            put(names[file], bytes, (size_t)sizes[i], "wbT");
            if (!whole)
                refused(names[file], "truncated or corrupt: record ");
            else if (file == 0)
                refused("data_batch_2.bin", "has 2 images, but data_batch_1.bin has 1");
            else if (file < TRAINING_FILES)
                refused(names[file], "has 1 images, but data_batch_1.bin has 2");
            else
                load(folder);
        }
        put_records(file, records_of(file));
    }
}

static void longer_files(void **state) {
    uint8_t bytes[TEST_RECORDS * RECORD + 1] = {0};
    (void)state;
    for (int file = 0; file < FILES; file++) {
        int records = records_of(file);
        fill(bytes, file, records);
        bytes[records * RECORD] = 0;
        put(names[file], bytes, (size_t)records * RECORD + 1, "wbT");
        refused(names[file], "has 1 of 3073 bytes");
        put_records(file, records);
    }
}

static void label_above_nine(void **state) {
    uint8_t bytes[TEST_RECORDS * RECORD];
    (void)state;
    for (int file = 0; file < FILES; file++) {
        fill(bytes, file, records_of(file));
        bytes[RECORD] = file % 2 ? 255 : 10;
        put(names[file], bytes, (size_t)records_of(file) * RECORD, "wbT");
        refused(names[file], file % 2 ? "label 1 is 255, above 9" : "label 1 is 10, above 9");
        put_records(file, records_of(file));
    }
}

// Of RECORDS records, zlib unpacks the first ones before it meets damage to the last ones.
static void damaged_gzip_files(void **state) {
    enum { APART = 37, RECORDS = 30 };
    static uint8_t bytes[RECORDS * RECORD];
    (void)state;
    unlink(path_of(names[TRAINING_FILES]));
    fill(bytes, TRAINING_FILES, RECORDS);
    damaged_gzip_is_refused("test_batch.bin.gz", bytes, sizeof bytes, APART,
                            "; delete the file and run make data SET=cifar10");
    load(folder);
    assert_int_equal(test.count, RECORDS);
    check_image(&test, RECORDS - 1, TRAINING_FILES, RECORDS - 1);
}

// The program finds data/cifar10 by itself, after the folders of the smaller images.
static void folder_is_found(void **state) {
    static const char *const others[] = {"data/fashion-mnist", "data/mnist"};
    char before[PATH_MAX], name[64];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("data", 0777) | mkdir("data/cifar10", 0777), 0);
    put("data/cifar10/data_batch_1.bin", "", 0, "wbT");
    finds("data/cifar10");
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/train-images-idx3-ubyte", others[i]);
        assert_int_equal(mkdir(others[i], 0777), 0);
        put(name, "", 0, "wbT");
        finds(others[i]);
    }
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, "%s/train-images-idx3-ubyte", others[i]);
        assert_int_equal(unlink(name) | rmdir(others[i]), 0);
    }
    assert_int_equal(unlink("data/cifar10/data_batch_1.bin") | rmdir("data/cifar10"), 0);
    assert_int_equal(rmdir("data") | chdir(before), 0);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(planes_become_pixels),
        WITH_FOLDER(compressed_files),
        WITH_FOLDER(mean_and_deviation_of_each_channel),
        WITH_FOLDER(full_files),
        WITH_FOLDER(missing_file),
        WITH_FOLDER(single_file),
        WITH_FOLDER(folder_in_place_of_a_file),
        WITH_FOLDER(truncated_files),
        WITH_FOLDER(longer_files),
        WITH_FOLDER(label_above_nine),
        WITH_FOLDER(damaged_gzip_files),
        WITH_FOLDER(folder_is_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
