// Tests of the data sets: valid files, damaged files, the images that the program makes, and the
// shuffle. To test another format of files, add it to formats.
#include "common/base/options.h"
#include "exercises/messages.h"
#include "tests/unit/data_folder.h"
#include <math.h>

enum { MOST_FILES = 6, PIXELS = 32 * 32, RECORD = 1 + 3 * PIXELS, MOST_BYTES = 3 * RECORD };

// A format of files, with a small valid set.
struct format {
    const char *names[MOST_FILES];
    int files;
    size_t (*fill)(int file, uint8_t *bytes); // returns the size of the file
    void (*check_sets)(void);                 // that train and test are the set
    const char *again;                        // part of the advice for a missing file
    size_t apart;                             // damage is tried at places that are so far apart
};

static const struct format *format; // of the folder

static void put_good(int file) {
    uint8_t bytes[MOST_BYTES];
    put(format->names[file], bytes, format->fill(file, bytes), "wbT");
}

static const char *put_packed(int file) {
    static char name[64];
    uint8_t bytes[MOST_BYTES];
    snprintf(name, sizeof name, "%s.gz", format->names[file]);
    put(name, bytes, format->fill(file, bytes), "wb");
    unlink(path_of(format->names[file]));
    return name;
}

// Makes a folder with the files of the format, which is the state of tests that need one.
static int make_folder(void **state) {
    format = *state;
    if (format && new_folder())
        return -1;
    for (int i = 0; format && i < format->files; i++)
        put_good(i);
    return 0;
}

static int remove_folder(void **state) {
    free_sets();
    return format ? delete_folder(format->names, format->files) : 0;
}

enum { TRAIN_IMAGES, TRAIN_LABELS, TEST_IMAGES, TEST_LABELS };

struct idx {
    size_t size;
    uint8_t bytes[40];
};

// Three training images and two test images of 2 x 2. The training pixels are nine times 0 and
// three times 0.8, so their mean is 0.2 and their variance (9 * 0.2^2 + 3 * 0.6^2) / 12 = 0.12.
static const struct idx good[] = {
    {28,
     {0, 0, 8, 3, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 204, 0, 0, 204, 0, 0, 0, 0, 0, 204}},
    {11, {0, 0, 8, 1, 0, 0, 0, 3, 7, 0, 9}},
    {24, {0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 4, 5, 6, 7, 255}},
    {10, {0, 0, 8, 1, 0, 0, 0, 2, 1, 2}},
};

static size_t fill_idx(int file, uint8_t *bytes) {
    memcpy(bytes, good[file].bytes, good[file].size);
    return good[file].size;
}

static void check_members(const struct dataset *set, size_t count, struct shape shape) {
    assert_int_equal(set->count, count);
    assert_memory_equal(&set->shape, &shape, sizeof shape);
    assert_int_equal(set->inputs, shape_size(shape));
    assert_int_equal(set->targets, 1);
    assert_int_equal(set->classes, 10);
}

// The training set's mean and deviation normalise both sets.
static void check_idx(void) {
    check_members(&train, 3, (struct shape){2, 2, 1});
    check_members(&test, 2, (struct shape){2, 2, 1});
    assert_memory_equal(train.values, good[TRAIN_IMAGES].bytes + 16, 12);
    assert_memory_equal(train.labels, good[TRAIN_LABELS].bytes + 8, 3);
    assert_memory_equal(test.values, good[TEST_IMAGES].bytes + 16, 8);
    assert_memory_equal(test.labels, good[TEST_LABELS].bytes + 8, 2);
    assert_float_equal(train.mean[0], 0.2, 1e-7);
    assert_float_equal(train.deviation[0], sqrt(0.12), 1e-7);
    assert_true(test.mean[0] == train.mean[0] && test.deviation[0] == train.deviation[0]);
}

enum { TRAINING_FILES = 5, MOST_RECORDS = 10000 };

static int records_of(int file) {
    return file < TRAINING_FILES ? 2 : 3;
}

// Every value of a record differs from its neighbours, and from the same value of other records.
static uint8_t value(int file, int record, int channel, int pixel) {
    return (uint8_t)(pixel * 7 + pixel / 32 + channel * 85 + record * 11 + file * 40);
}

static uint8_t label(int file, int record) {
    return (uint8_t)((file * 2 + record) % 10);
}

static size_t fill_records(int file, int records, uint8_t *bytes) {
    for (int r = 0; r < records; r++) {
        *bytes++ = label(file, r);
        for (int i = 0; i < 3 * PIXELS; i++)
            *bytes++ = value(file, r, i / PIXELS, i % PIXELS);
    }
    return (size_t)records * RECORD;
}

static size_t fill_cifar(int file, uint8_t *bytes) {
    return fill_records(file, records_of(file), bytes);
}

// The files hold plane after plane, the set pixel after pixel.
static void check_image(const struct dataset *set, size_t image, int file, int record) {
    const uint8_t *values = set->values + image * 3 * PIXELS;
    assert_int_equal(set->labels[image], label(file, record));
    for (int i = 0; i < 3 * PIXELS; i++)
        assert_int_equal(values[i], value(file, record, i % 3, i / 3));
}

static void check_cifar(void) {
    check_members(&train, TRAINING_FILES * 2, (struct shape){32, 32, 3});
    check_members(&test, 3, (struct shape){32, 32, 3});
    for (int c = 0; c < 3; c++) { // the mean and the deviation of each channel
        double sum = 0, squares = 0, count = (double)train.count * PIXELS;
        for (size_t i = c; i < 3 * train.count * PIXELS; i += 3) {
            sum += train.values[i] / 255.;
            squares += train.values[i] / 255. * train.values[i] / 255.;
        }
        assert_float_equal(train.mean[c], sum / count, 1e-6);
        assert_float_equal(train.deviation[c], sqrt(squares / count - pow(sum / count, 2)), 1e-6);
    }
    for (size_t i = 0; i < train.count; i++)
        check_image(&train, i, (int)i / 2, (int)i % 2);
    for (size_t i = 0; i < test.count; i++)
        check_image(&test, i, TRAINING_FILES, (int)i);
}

static const struct format idx = {{"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                   "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"},
                                  .files = 4,
                                  .fill = fill_idx,
                                  .check_sets = check_idx,
                                  .again = "make data",
                                  .apart = 1};
static const struct format dotted = {{"train-images.idx3-ubyte", "train-labels.idx1-ubyte",
                                      "t10k-images.idx3-ubyte", "t10k-labels.idx1-ubyte"},
                                     .files = 4,
                                     .fill = fill_idx,
                                     .check_sets = check_idx};
static const struct format cifar = {{"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                                     "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"},
                                    .files = 6,
                                    .fill = fill_cifar,
                                    .check_sets = check_cifar,
                                    .again = "make data SET=cifar10",
                                    .apart = 301};

#define TEST_OF_BOTH(name)                                                                         \
    static void name(void **state);                                                                \
    __attribute__((constructor)) static void add_##name(void) {                                    \
        add_test(#name ", IDX", name, &idx);                                                       \
        add_test(#name ", CIFAR-10", name, &cifar);                                                \
    }                                                                                              \
    static void name(void **state)

TEST_OF_BOTH(files_are_read) {
    load(folder);
    format->check_sets();
    for (int i = 0; i < format->files; i++) {
        put_packed(i);
        load(folder); // with the files before this one compressed, and those after it plain
        format->check_sets();
    }
}

// A missing file can be fetched, and a folder in its place must go.
TEST_OF_BOTH(missing_files_are_refused) {
    for (int i = 0; i < format->files; i++) {
        unlink(path_of(format->names[i]));
        refused(format->names[i], format->again);
        assert_int_equal(mkdir(path_of(format->names[i]), 0700), 0);
        refused(format->names[i], "is a folder, a pipe or a device");
        assert_int_equal(rmdir(path_of(format->names[i])), 0);
        put_good(i);
    }
}

// Other lengths, and compressed files that are damaged or end early.
TEST_OF_BOTH(wrong_lengths_are_refused) {
    uint8_t bytes[MOST_BYTES + 1] = {0};
    for (int i = 0; i < format->files; i++) {
        size_t size = format->fill(i, bytes);
        for (size_t length = 0; length < size; length += format->apart) {
            put(format->names[i], bytes, length, "wbT");
            refused(format->names[i], "truncated");
        }
        put(format->names[i], bytes, size + 1, "wbT");
        refused(format->names[i], format == &idx ? "goes on after" : "has 1 of 3073 bytes");
        put_good(i);
    }
}

// Damages gzip's checksum and size at the end at every place, and cuts the file at every place.
// Some damage to the ten bytes of gzip's header has no effect, such as another time.
TEST_OF_BOTH(damaged_gzip_files_are_refused) {
    enum { GZIP_HEADER = 10, TRAILER = 8 };
    for (int i = 0; i < format->files; i++) {
        uint8_t packed[MOST_BYTES + 1000];
        const char *name = put_packed(i);
        FILE *file = fopen(path_of(name), "rb");
        assert_non_null(file);
        size_t size = fread(packed, 1, sizeof packed, file);
        fclose(file);
        for (size_t at = GZIP_HEADER; at < size; at += at + TRAILER < size ? format->apart : 1) {
            packed[at] ^= 0xff;
            put(name, packed, size, "wbT");
            refused(name, "corrupt; delete the file, and make data");
            packed[at] ^= 0xff;
        }
        for (size_t length = 0; length < size; length++) {
            put(name, packed, length, "wbT");
            refused(name, TRUNCATED);
        }
        put(name, packed, size, "wbT");
    }
}

TEST_OF(wrong_magic_is_refused, &idx) {
    for (int i = 0; i < format->files; i++) {
        // Big-endian IDX of bytes is 0 0 8 and the number of dimensions; 13 is the type of floats.
        const uint8_t wrong[] = {1, 1, 13, i % 2 ? 3 : 1};
        for (int at = 0; at < 4; at++) {
            struct idx bad = good[i];
            bad.bytes[at] = wrong[at];
            put(format->names[i], bad.bytes, bad.size, "wbT");
            refused(format->names[i], "wrong magic");
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
    put(format->names[file], claim.bytes, claim.size, "wbT");
}

TEST_OF(impossible_sizes_are_refused, &idx) {
    static const struct {
        uint32_t count, rows, columns;
        const char *reason;
    } cases[] = {
        {0, 2, 2, "dimension 0 is 0"},
        {3, 2, 0, "dimension 2 is 0"},
        {0xffffffff, 2, 2, "dimension 0 is 4294967295"},
        {3, 53300, 80581, "dimension 2 is 80581"}, // 3 * 2^32 + 12: the right size modulo 2^32
        {1 << 22, 1 << 21, 1 << 21, "dimension 1 is 2097152"}, // 0 modulo 2^64
        {1, 1 << 15, (1 << 15) + 1, "dimension 2 is 32769"},   // just above the limit
        {1, 1 << 15, 1 << 15, "truncated"}, // the limit: impossible only for this file
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put_images(TRAIN_IMAGES, cases[i].count, cases[i].rows, cases[i].columns);
        refused(format->names[TRAIN_IMAGES], cases[i].reason);
    }
}

// Files that are right each, but do not fit, and labels above 9.
TEST_OF(wrong_sets_are_refused, &idx) {
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
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        put(format->names[cases[i].file], cases[i].bytes, cases[i].size, "wbT");
        refused(cases[i].name, cases[i].reason);
        put_good(cases[i].file);
    }
    put_images(TEST_IMAGES, 2, 1, 4); // as many pixels, but in another shape
    refused(folder, "training images have 2 x 2 pixels and 1 channels, test images 1 x 4 and 1");
}

// The checksums are zlib.crc32 of all values, and of all labels.
TEST_OF(any_other_byte_changes_the_contents, &idx) {
    char before[sizeof data_contents];
    load(folder);
    assert_string_equal(
        data_contents,
        "number of training images: 3, training shape: 2 x 2 x 1, "
        "checksum of the training images: 80395324, checksum of the training labels: 83d27733, "
        "number of test images: 2, test shape: 2 x 2 x 1, "
        "checksum of the test images: 1c13ef7a, checksum of the test labels: b6cc4292, ");
    memcpy(before, data_contents, sizeof before);
    for (int file = 0; file < format->files; file++) {
        static const char *const parts[] = {
            "checksum of the training images: ", "checksum of the training labels: ",
            "checksum of the test images: ", "checksum of the test labels: "};
        uint8_t bytes[MOST_BYTES];
        size_t size = format->fill(file, bytes);
        bytes[size - 1]--;
        put(format->names[file], bytes, size, "wbT");
        load(folder);
        size_t part = options_difference(before, data_contents);
        assert_memory_equal(data_contents + part, parts[file], strlen(parts[file]));
        put_good(file);
    }
}

// The training files must have the same number of records. The test file may have any number, up to
// that of the real files.
TEST_OF(numbers_of_records_are_compared, &cifar) {
    static uint8_t bytes[(MOST_RECORDS + 1) * RECORD];
    for (int file = 0; file < TRAINING_FILES; file++) {
        put(format->names[file], bytes, fill_records(file, 1, bytes), "wbT");
        if (file == 0)
            refused("data_batch_2.bin", "has 2 images, but data_batch_1.bin has 1");
        else
            refused(format->names[file], "has 1 images, but data_batch_1.bin has 2");
        put_good(file);
    }
    size_t size = fill_records(TRAINING_FILES, MOST_RECORDS + 1, bytes);
    put("test_batch.bin", bytes, size - RECORD, "wbT");
    load(folder);
    assert_int_equal(test.count, MOST_RECORDS);
    check_image(&test, MOST_RECORDS - 1, TRAINING_FILES, MOST_RECORDS - 1);
    put("test_batch.bin", bytes, size, "wbT");
    refused("test_batch.bin", "goes on after 10000 records");
}

TEST_OF(labels_above_nine_are_refused, &cifar) {
    uint8_t bytes[MOST_BYTES];
    for (int file = 0; file < format->files; file++) {
        size_t size = format->fill(file, bytes);
        bytes[RECORD] = file % 2 ? 255 : 10;
        put(format->names[file], bytes, size, "wbT");
        refused(format->names[file], file % 2 ? "label 1 is 255, above 9" : "label 1 is 10, above");
        put_good(file);
    }
}

TEST_OF(names_may_have_a_dot, &dotted) {
    load(folder);
    format->check_sets();
}

// Folders around or below that of the files, and files of other programs.
TEST(other_folders_are_named) {
    static const struct {
        const char *file, *reason; // in the folder x
    } cases[] = {
        {"x/cifar-10-batches-bin/data_batch_1.bin", "use --data x/cifar-10-batches-bin"},
        {"x/MNIST/raw/train-images-idx3-ubyte.gz", "use --data x/MNIST/raw"},
        {"x/cifar-10-batches-py/data_batch_1", "x/cifar-10-batches-py/data_batch_1: no file that"},
        {"x/mnist.npz", "x/mnist.npz: no file that this program reads; make data fetches"},
        {"x/mnist/train-00000-of-00001.parquet", "0001.parquet: no file that"},
    };
    char before[PATH_MAX], why[WHY_SIZE], command[200];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(new_folder(), 0);
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *from = "x";
        snprintf(command, sizeof command, "mkdir -p $(dirname %s) && touch %s", cases[i].file,
                 cases[i].file);
        assert_int_equal(system(command), 0);
        assert_int_equal(data_load(&train, &test, &from, why), -1);
        if (!strstr(why, cases[i].reason))
            fail_msg("%s is refused with \"%s\"", cases[i].file, why);
        assert_int_equal(system("rm -r x"), 0);
    }
    assert_int_equal(chdir(before), 0);
    assert_int_equal(rmdir(folder), 0);
}

// "auto" is the first of four folders with images, or data/mnist if none has any. Here no folder
// has a complete set.
TEST_OF(folder_is_found, &idx) {
    static const char *const cases[][2] = {
        {"data/", "data/mnist"},
        {"data/mnist/", "data/mnist"},
        {"data/fashion-mnist/", "data/mnist"},
        {"data/cifar10/", "data/mnist"},
        {"data/digits/", "data/mnist"},
        {"data/digits/train-images-idx3-ubyte", "data/digits"},
        {"data/cifar10/data_batch_1.bin", "data/cifar10"},
        {"data/fashion-mnist/train-images-idx3-ubyte.gz", "data/fashion-mnist"},
        {"data/mnist/train-images-idx3-ubyte.gz.part", "data/fashion-mnist"},
        {"data/mnist/train-images-idx3-ubyte", "data/mnist"},
    };
    char before[PATH_MAX], why[WHY_SIZE];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(folder), 0);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *from = "auto", *made = cases[i][0];
        if (made[strlen(made) - 1] == '/')
            assert_int_equal(mkdir(made, 0777), 0);
        else
            put(made, "", 0, "wbT");
        assert_int_equal(data_load(&train, &test, &from, why), -1);
        assert_string_equal(from, cases[i][1]);
        free_sets();
    }
    assert_int_equal(system("rm -r data"), 0);
    assert_int_equal(chdir(before), 0);
}

// A blank channel has no deviation to divide by.
TEST(blank_images_have_a_deviation) {
    load("blank:6");
    assert_true(train.mean[0] == 0 && train.deviation[0] == 1);
}

// The sums of the shapes come from a Python version of their generator. The images must stay the
// same, because measured accuracies and snapshots belong to them. With these bytes, no image
// appears twice, the nearest class mean finds above 95 % of the synthetic labels, and at most 15 %
// of those of the shapes, whose classes differ neither in their area nor in their colours.
TEST(made_images_stay_the_same) {
    static const struct {
        const char *name;
        size_t counts[2];
        struct shape shape;
        uint32_t sums[2][2];
    } cases[] = {
        {"synthetic",
         {60000, 10000},
         {28, 28, 1},
         {{0xb63b2a54, 0x1340cadb}, {0x156ff515, 0xd5822808}}},
        {"shapes",
         {10000, 2000},
         {32, 32, 3},
         {{0xfde5e0a6, 0xfaed1910}, {0xa06bb445, 0x291295d3}}},
    };
    for (int i = 0; i < 2; i++) {
        load(cases[i].name);
        assert_string_equal(data_samples, "images");
        for (int k = 0; k < 2; k++) {
            const struct dataset *set = k ? &test : &train;
            check_members(set, cases[i].counts[k], cases[i].shape);
            assert_int_equal(crc32_z(0, set->values, set->count * (size_t)set->inputs),
                             cases[i].sums[k][0]);
            assert_int_equal(crc32_z(0, set->labels, set->count), cases[i].sums[k][1]);
        }
    }
}

enum { COUNT = 60000 };
static uint32_t order[COUNT];

TEST(shuffle_is_a_permutation) {
    static uint8_t seen[COUNT];
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

// These values come from a Python version of the generator and the shuffle. The order must never
// change, because a new version of the program must continue from old snapshots.
TEST(shuffle_known_values) {
    static const uint32_t first[] = {24431, 58897, 26559, 30512, 59463, 34644, 18846, 22721};
    static const uint32_t second[] = {57, 34727, 15957, 47195, 19219, 17559, 54841, 47848};
    static const uint32_t ten[] = {2, 1, 4, 3, 7, 0, 9, 5, 6, 8};
    shuffle(order, COUNT, 1, 0);
    assert_memory_equal(order, first, sizeof first);
    shuffle(order, COUNT, 1, 1);
    assert_memory_equal(order, second, sizeof second);
    shuffle(order, 10, 1, 0);
    assert_memory_equal(order, ten, sizeof ten);
    shuffle(order, 10, 2, 0);
    assert_memory_not_equal(order, ten, sizeof ten);
}

int main(void) {
    return run_all_tests((struct around){.begin = make_folder, .end = remove_folder});
}
