// Tests of the data set: valid IDX files, damaged IDX files, the synthetic set and the shuffle.
#include "common/device/device.h"
#include "tests/unit/data_folder.h"
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS, FILES };

struct idx {
    size_t size;
    uint8_t bytes[40];
};

static const char *const names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                         "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

// Three training images and two test images of 2 x 2. The training pixels are nine times 0 and
// three times 0.8, so their mean is 0.2 and their variance (9 * 0.2^2 + 3 * 0.6^2) / 12 = 0.12.
static const struct idx good[FILES] = {
    {28,
     {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 204, 0, 0, 204, 0, 0, 0, 0, 0, 204}},
    {11, {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9}},
    {24, {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 255}},
    {10, {0, 0, 8, 1, 0, 0, 0, 2, 1, 2}},
};

static void put_good(int file) {
    put(names[file], good[file].bytes, good[file].size, "wbT");
}

static int make_folder(void **state) {
    (void)state;
    if (new_folder())
        return -1;
    for (int i = 0; i < FILES; i++)
        put_good(i);
    return 0;
}

static int remove_folder(void **state) {
    (void)state;
    return delete_folder(names, FILES);
}

static int drop_sets(void **state) {
    (void)state;
    free_sets();
    return 0;
}

static void check_good_sets(void) {
    assert_int_equal(train.count, 3);
    assert_int_equal(test.count, 2);
    const struct dataset *sets[] = {&train, &test};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sets[i]->shape.channels, 1);
        assert_int_equal(sets[i]->inputs, 4);
        assert_int_equal(sets[i]->targets, 1);
        assert_int_equal(sets[i]->classes, 10);
    }
    assert_memory_equal(train.values, good[TRAIN_IMAGES].bytes + 16, 12);
    assert_memory_equal(train.labels, good[TRAIN_LABELS].bytes + 8, 3);
    assert_memory_equal(test.values, good[TEST_IMAGES].bytes + 16, 8);
    assert_memory_equal(test.labels, good[TEST_LABELS].bytes + 8, 2);
}

static void plain_files(void **state) {
    (void)state;
    load(folder);
    check_good_sets();
}

static void compressed_files(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) {
        char packed[64];
        snprintf(packed, sizeof packed, "%s.gz", names[i]);
        put(packed, good[i].bytes, good[i].size, "wb");
        unlink(path_of(names[i]));
        load(folder); // with the files before this one compressed, and those after it plain
        check_good_sets();
    }
}

// The training set's mean and deviation normalise both sets.
static void mean_and_deviation(void **state) {
    (void)state;
    load(folder);
    assert_float_equal(train.mean[0], 0.2, 1e-7);
    assert_float_equal(train.deviation[0], sqrt(0.12), 1e-7);
    assert_true(test.mean[0] == train.mean[0] && test.deviation[0] == train.deviation[0]);
}

// Two samples of three channels of two values each: around 51, blank, and around 153.
static void each_channel_has_its_mean(void **state) {
    uint8_t values[] = {0, 7, 153, 102, 7, 102, 102, 7, 204, 0, 7, 153};
    struct dataset set = {.count = 2, .shape = {1, 2, 3}, .inputs = 6, .values = values};
    const double means[] = {0.2, 7 / 255., 0.6}, deviations[] = {0.2, 1, sqrt(0.02)};
    (void)state;
    data_measure(&set);
    for (int c = 0; c < 3; c++) {
        assert_float_equal(set.mean[c], means[c], 1e-7);
        assert_float_equal(set.deviation[c], deviations[c], 1e-7);
    }
    assert_true(set.mean[3] == 0 && set.deviation[3] == 0);
}

// print_data must print this line for sets with this number of channels.
static void checksum_covers_samples_and_labels(void **state) {
    (void)state;
    load(folder);
    // zlib.crc32 of 64 samples, each followed by its label: the first 22 times, and so on.
    uint32_t crc = data_checksum(&train);
    assert_int_equal(crc, 0x8d0f60c9);
    train.values[5]++;
    assert_int_not_equal(data_checksum(&train), crc);
    train.values[5]--;
    train.labels[2]++;
    assert_int_not_equal(data_checksum(&train), crc);
    train.labels[2]--;
    assert_int_equal(data_checksum(&train), crc);
}

static void banner(int channels, const char *want) {
    char line[200] = "";
    struct dataset set = {
        .count = 3, .shape = {1, 1, channels}, .mean = {0.1307f, 0.25f}, .deviation = {0.3081f, 1}};
    FILE *file = fopen(path_of("banner"), "w+");
    int saved = dup(STDOUT_FILENO);
    assert_non_null(file);
    fflush(stdout);
    assert_true(saved >= 0 && dup2(fileno(file), STDOUT_FILENO) >= 0);
    print_data("folder", &set, &(struct dataset){.count = 2});
    fflush(stdout);
    assert_true(dup2(saved, STDOUT_FILENO) >= 0);
    close(saved);
    rewind(file);
    assert_non_null(fgets(line, sizeof line, file));
    fclose(file);
    unlink(path_of("banner"));
    assert_string_equal(line, want);
}

static void banner_has_all_channels(void **state) {
    (void)state;
    banner(1,
           "data      folder: 3 training and 2 test images, pixel mean 0.1307, deviation 0.3081\n");
    banner(2, "data      folder: 3 training and 2 test images, pixel mean 0.1307 0.2500, "
              "deviation 0.3081 1.0000\n");
}

static void blank_images_stay_finite(void **state) {
    struct idx blank = good[TRAIN_IMAGES];
    (void)state;
    memset(blank.bytes + 16, 51, 12);
    put(names[TRAIN_IMAGES], blank.bytes, blank.size, "wbT");
    load(folder);
    assert_float_equal(train.mean[0], 0.2, 1e-7);
    assert_float_equal(train.deviation[0], 1, 0);
}

static void samples_reach_the_device(void **state) {
    uint8_t values[12], labels[3];
    (void)state;
    for (int targets = 1; targets <= 3; targets += 2) {
        load(folder);
        train.count = 3 / (size_t)targets; // one image with three labels
        train.targets = targets;
        data_to_device(&train);
        CUDA_CHECK(cudaMemcpy(values, train.values, train.count * 4, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaMemcpy(labels, train.labels, sizeof labels, cudaMemcpyDeviceToHost));
        CUDA_CHECK(cudaFree(train.values));
        CUDA_CHECK(cudaFree(train.labels));
        assert_memory_equal(values, good[TRAIN_IMAGES].bytes + 16, train.count * 4);
        assert_memory_equal(labels, good[TRAIN_LABELS].bytes + 8, sizeof labels);
        train = (struct dataset){0};
    }
}

static void missing_folder(void **state) {
    char why[WHY_SIZE] = "";
    const char *nowhere = path_of("nowhere");
    (void)state;
    assert_int_equal(data_load(&train, &test, &nowhere, why), -1);
    assert_non_null(strstr(why, "nowhere: there is no such folder"));
    assert_non_null(strstr(why, "make data"));
}

// "auto" is the first of two folders with images, or data/mnist if neither has any.
static void folder_is_found(void **state) {
    static const struct {
        const char *file, *found;
    } cases[] = {
        {"data/fashion-mnist", "data/mnist"}, // as yet without images
        {"data/fashion-mnist/train-images-idx3-ubyte.gz", "data/fashion-mnist"},
        {"data/mnist/train-images-idx3-ubyte.gz.part", "data/fashion-mnist"},
        {"data/mnist/train-images-idx3-ubyte", "data/mnist"},
    };
    char before[PATH_MAX];
    (void)state;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    assert_int_equal(mkdir("data", 0777) | mkdir("data/mnist", 0777), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if (i == 0)
            assert_int_equal(mkdir(cases[i].file, 0777), 0);
        else
            put(cases[i].file, "", 0, "wbT");
        finds(cases[i].found);
    }
    for (size_t i = sizeof cases / sizeof *cases; i > 0; i--)
        assert_int_equal(remove(cases[i - 1].file), 0);
    assert_int_equal(rmdir("data/mnist") | rmdir("data"), 0);
    assert_int_equal(chdir(before), 0);
}

static void missing_file(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) {
        unlink(path_of(names[i]));
        refused(names[i], "make data");
        put_good(i);
    }
}

static void folder_in_place_of_a_file(void **state) {
    (void)state;
    folder_is_refused(names[TEST_LABELS],
                      "no complete header; delete the file; make data, or make data "
                      "SET=fashion-mnist, fetches it");
}

static void wrong_lengths_are_refused(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) {
        for (size_t size = 0; size <= good[i].size + 1; size++)
            if (size != good[i].size) {
                put(names[i], good[i].bytes, size, "wbT");
                refused(names[i], size < good[i].size ? "truncated" : "goes on after");
            }
        put_good(i);
    }
}

static void wrong_magic_is_refused(void **state) {
    (void)state;
    for (int i = 0; i < FILES; i++) {
        // Big-endian IDX of bytes is 0 0 8 and the number of dimensions; 13 is the type of floats.
        const uint8_t wrong[] = {1, 1, 13, i % 2 ? 3 : 1};
        for (int at = 0; at < 4; at++) {
            struct idx bad = good[i];
            bad.bytes[at] = wrong[at];
            put(names[i], bad.bytes, bad.size, "wbT");
            refused(names[i], "wrong magic");
        }
        put_good(i);
    }
}

// Writes images whose header has this shape, with a valid body.
static void put_images(int file, uint32_t count, uint32_t rows, uint32_t columns) {
    struct idx claim = good[file];
    const uint32_t shape[] = {count, rows, columns};
    for (int i = 0; i < 12; i++)
        claim.bytes[4 + i] = (uint8_t)(shape[i / 4] >> (24 - i % 4 * 8));
    put(names[file], claim.bytes, claim.size, "wbT");
}

static void impossible_sizes_are_refused(void **state) {
    static const struct {
        uint32_t count, rows, columns;
        const char *reason;
    } cases[] = {
        {0, 2, 2, "dimension 0 is 0"},
        {3, 0, 2, "dimension 1 is 0"},
        {3, 2, 0, "dimension 2 is 0"},
        {0xffffffff, 2, 2, "dimension 0 is 4294967295"},
        {3, 0xffffffff, 0xffffffff, "dimension 1 is 4294967295"},
        {3, 53300, 80581, "dimension 2 is 80581"},     // 3 * 2^32 + 12: the right size modulo 2^32
        {1 << 16, 1 << 16, 1, "dimension 1 is 65536"}, // 0 modulo 2^32
        {1 << 22, 1 << 21, 1 << 21, "dimension 1 is 2097152"}, // 0 modulo 2^64
        {1, 1u << 31, 1u << 31, "dimension 1 is 2147483648"},  // more pixels than an int counts
        {1, 1 << 15, (1 << 15) + 1, "dimension 2 is 32769"},   // just above the limit
        {1, 1 << 15, 1 << 15, "truncated"}, // the limit: impossible only for this file
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_images(TRAIN_IMAGES, cases[i].count, cases[i].rows, cases[i].columns);
        refused(names[TRAIN_IMAGES], cases[i].reason);
    }
}

// Images and labels that are right each, but do not fit, and labels above 9.
static void wrong_labels_are_refused(void **state) {
    static const struct {
        int file;
        const char *bytes;
        size_t size;
        const char *name, *reason;
    } cases[] = {
        {TRAIN_LABELS, "\0\0\10\1\0\0\0\2\1\2", 10, "train", "3 images but 2 labels"},
        {TEST_LABELS, "\0\0\10\1\0\0\0\3\1\2\3", 11, "t10k", "2 images but 3 labels"},
        {TRAIN_LABELS, "\0\0\10\1\0\0\0\3\1\2\12", 11, "train", "label 2 is 10, above 9"},
        {TEST_LABELS, "\0\0\10\1\0\0\0\2\377\2", 10, "t10k", "label 0 is 255, above 9"},
        {TEST_LABELS, "\0\0\10\1\0\0\0", 8, "t10k-labels-idx1-ubyte", "dimension 0 is 0"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(names[cases[i].file], cases[i].bytes, cases[i].size, "wbT");
        refused(cases[i].name, cases[i].reason);
        put_good(cases[i].file);
    }
}

static void different_sizes_of_images(void **state) {
    (void)state;
    put_images(TEST_IMAGES, 2, 1, 4); // as many pixels, but in another shape
    refused(folder, "training images have 2 x 2 pixels and 1 channels, test images 1 x 4 and 1");
    put(names[TEST_IMAGES], "\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\2\1\2\3\4", 20, "wbT");
    refused(folder, "training images have 2 x 2 pixels and 1 channels, test images 1 x 2 and 1");
}

static void damaged_gzip_files_are_refused(void **state) {
    (void)state;
    unlink(path_of(names[TEST_IMAGES]));
    damaged_gzip_is_refused("t10k-images-idx3-ubyte.gz", good[TEST_IMAGES].bytes,
                            good[TEST_IMAGES].size, 1, "corrupt");
    load(folder);
    check_good_sets();
}

static int compare_images(const void *a, const void *b) {
    return memcmp(*(uint8_t *const *)a, *(uint8_t *const *)b, (size_t)train.inputs);
}

static void check_labels(const struct dataset *set) {
    size_t counts[256] = {0}, sum = 0;
    for (size_t i = 0; i < set->count; i++)
        counts[set->labels[i]]++;
    for (int c = 0; c < set->classes; c++) {
        assert_true(counts[c] * 100 >= set->count * 9 && counts[c] * 100 <= set->count * 11);
        sum += counts[c];
    }
    assert_int_equal(sum, set->count);
}

static void synthetic_set(void **state) {
    (void)state;
    load("synthetic");
    assert_string_equal(data_samples, "images");
    assert_string_equal(data_word(2), "blank:COUNT");
    assert_null(data_word(3));
    assert_int_equal(train.count, 60000);
    assert_int_equal(test.count, 10000);
    assert_int_equal(train.inputs, 784);
    assert_int_equal(test.inputs, 784);
    assert_int_equal(train.classes, 10);
    check_labels(&train);
    check_labels(&test);

    // No image appears twice in a set or in both sets.
    size_t count = train.count + test.count, twins = 0;
    uint8_t **images = malloc(count * sizeof *images);
    assert_non_null(images);
    for (size_t i = 0; i < count; i++)
        images[i] =
            i < train.count ? train.values + i * 784 : test.values + (i - train.count) * 784;
    qsort(images, count, sizeof *images, compare_images);
    for (size_t i = 1; i < count; i++)
        twins += compare_images(&images[i - 1], &images[i]) == 0;
    free(images);
    assert_int_equal(twins, 0);
}

static void synthetic_set_is_always_the_same(void **state) {
    (void)state;
    load("synthetic");
    struct dataset first = train, first_test = test;
    train = test = (struct dataset){0};
    load("synthetic");
    int same = !memcmp(train.values, first.values, train.count * 784) &&
               !memcmp(test.values, first_test.values, test.count * 784) &&
               !memcmp(train.labels, first.labels, train.count) &&
               !memcmp(test.labels, first_test.labels, test.count);
    free_sets();
    train = first;
    test = first_test; // freed by the teardown
    assert_true(same);
}

// A model can learn the synthetic images: the nearest class mean of the training set gives the
// correct label of nearly all test images.
static void synthetic_set_is_separable(void **state) {
    static double sums[10][784];
    size_t counts[10] = {0}, correct = 0;
    (void)state;
    load("synthetic");
    memset(sums, 0, sizeof sums);
    for (size_t i = 0; i < train.count; i++) {
        counts[train.labels[i]]++;
        for (int p = 0; p < 784; p++)
            sums[train.labels[i]][p] += train.values[i * 784 + p];
    }
    for (size_t i = 0; i < test.count; i++) {
        int nearest = 0;
        double least = INFINITY;
        for (int c = 0; c < train.classes; c++) {
            double distance = 0;
            for (int p = 0; p < 784; p++) {
                double d = test.values[i * 784 + p] - sums[c][p] / counts[c];
                distance += d * d;
            }
            if (distance < least) {
                least = distance;
                nearest = c;
            }
        }
        correct += nearest == test.labels[i];
    }
    assert_true(correct > test.count * 95 / 100);
}

static void mnist(void **state) {
    (void)state;
    if (access("data/mnist/train-images-idx3-ubyte.gz", R_OK) ||
        access("data/mnist/t10k-labels-idx1-ubyte.gz", R_OK))
        skip();
    load("data/mnist");
    assert_int_equal(train.count, 60000);
    assert_int_equal(test.count, 10000);
    assert_int_equal(train.inputs, 784);
    assert_float_equal(train.mean[0], 0.1307, 0.00005);
    assert_float_equal(train.deviation[0], 0.3081, 0.00005);
    assert_int_equal(train.labels[0], 5); // a five comes first, and a seven among the test images
    assert_int_equal(test.labels[0], 7);
}

enum { COUNT = 60000 };
static uint32_t order[COUNT], other_order[COUNT];

static void shuffle_is_a_permutation(void **state) {
    static uint8_t seen[COUNT];
    (void)state;
    for (size_t count = 0; count <= COUNT; count = count < 4 ? count + 1 : count * 11) {
        memset(seen, 0, sizeof seen);
        memset(order, 0xff, sizeof order);
        shuffle(order, count, 3, 2);
        for (size_t i = 0; i < count; i++) {
            assert_true(order[i] < count);
            assert_false(seen[order[i]]++);
        }
        assert_int_equal(order[count < COUNT ? count : 0] == 0xffffffff, count < COUNT);
    }
}

// Two random orders agree in about one place, and practically never in a hundred.
static size_t places_in_common(uint64_t seed, uint64_t epoch) {
    size_t same = 0;
    shuffle(other_order, COUNT, seed, epoch);
    for (size_t i = 0; i < COUNT; i++)
        same += order[i] == other_order[i];
    return same;
}

static void shuffle_depends_on_seed_and_epoch(void **state) {
    (void)state;
    shuffle(order, COUNT, 1, 0);
    assert_int_equal(places_in_common(1, 0), COUNT);
    assert_true(places_in_common(1, 1) < 100);
    assert_true(places_in_common(2, 0) < 100);
    assert_true(places_in_common(0, 1) < 100);
    assert_true(places_in_common(1, (uint64_t)1 << 32) < 100);
    assert_true(places_in_common((uint64_t)1 << 32 | 1, 0) < 100);
}

// These values come from a Python version of the generator and the shuffle. The order must never
// change, because a new version of the program must continue from old snapshots.
static void shuffle_known_values(void **state) {
    static const uint32_t first[] = {24431, 58897, 26559, 30512, 59463, 34644, 18846, 22721};
    static const uint32_t second[] = {57, 34727, 15957, 47195, 19219, 17559, 54841, 47848};
    static const uint32_t ten[] = {2, 1, 4, 3, 7, 0, 9, 5, 6, 8};
    (void)state;
    shuffle(order, COUNT, 1, 0);
    assert_memory_equal(order, first, sizeof first);
    shuffle(order, COUNT, 1, 1);
    assert_memory_equal(order, second, sizeof second);
    shuffle(order, 10, 1, 0);
    assert_memory_equal(order, ten, sizeof ten);
}

// Counts how often each of ten values comes to each of ten places in 10,000 epochs. 0.9 times the
// statistic has a chi-square distribution with 81 degrees of freedom. It is outside these bounds
// with a probability of 1e-4.
static void shuffle_is_uniform(void **state) {
    static int counts[10][10];
    double statistic = 0;
    (void)state;
    for (uint64_t epoch = 0; epoch < 10000; epoch++) {
        shuffle(order, 10, 7, epoch);
        for (int i = 0; i < 10; i++)
            counts[i][order[i]]++;
    }
    for (int i = 0; i < 100; i++)
        statistic += pow(counts[i / 10][i % 10] - 1000, 2) / 1000;
    assert_true(0.9 * statistic > 41 && 0.9 * statistic < 136);
}

#define WITH_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
#define WITHOUT_FOLDER(test) cmocka_unit_test_teardown(test, drop_sets)

int main(void) {
    const struct CMUnitTest tests[] = {
        WITH_FOLDER(plain_files),
        WITH_FOLDER(compressed_files),
        WITH_FOLDER(mean_and_deviation),
        WITH_FOLDER(checksum_covers_samples_and_labels),
        cmocka_unit_test(each_channel_has_its_mean),
        WITH_FOLDER(banner_has_all_channels),
        WITH_FOLDER(blank_images_stay_finite),
        WITH_FOLDER(samples_reach_the_device),
        WITH_FOLDER(missing_folder),
        WITH_FOLDER(folder_is_found),
        WITH_FOLDER(missing_file),
        WITH_FOLDER(folder_in_place_of_a_file),
        WITH_FOLDER(wrong_lengths_are_refused),
        WITH_FOLDER(wrong_magic_is_refused),
        WITH_FOLDER(impossible_sizes_are_refused),
        WITH_FOLDER(wrong_labels_are_refused),
        WITH_FOLDER(different_sizes_of_images),
        WITH_FOLDER(damaged_gzip_files_are_refused),
        WITHOUT_FOLDER(synthetic_set),
        WITHOUT_FOLDER(synthetic_set_is_always_the_same),
        WITHOUT_FOLDER(synthetic_set_is_separable),
        WITHOUT_FOLDER(mnist),
        cmocka_unit_test(shuffle_is_a_permutation),
        cmocka_unit_test(shuffle_depends_on_seed_and_epoch),
        cmocka_unit_test(shuffle_known_values),
        cmocka_unit_test(shuffle_is_uniform),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
