#include "common/data/data.h"
#include "common/base/error.h"
#include "common/base/rng.h"
#include "common/base/say.h"
#include "common/data/datasets.h"
#include "common/device/device.h"
#include "common/training/catalogue.h"
#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

const char *data_samples = "images";
int data_tokens;
char data_contents[384];

const char *data_word(int i) {
    for (const struct data_source *const *source = catalogue->sources; *source; source++)
        if ((*source)->word && i-- == 0)
            return (*source)->word;
    return NULL;
}

void data_measure(struct dataset *set) {
    size_t channels = set->shape.channels, end = set->count * set->inputs;
    for (size_t channel = 0; channel < channels; channel++) {
        uint64_t sum = 0, squares = 0; // integers, so the sums are exact
        for (size_t i = channel; i < end; i += channels) {
            sum += set->values[i];
            squares += set->values[i] * set->values[i];
        }
        double values = (double)(end / channels), mean = sum / values;
        double variance = squares / values - mean * mean;
        set->mean[channel] = mean / 255;
        set->deviation[channel] = variance > 0 ? sqrt(variance) / 255 : 1; // blank: no x / 0
    }
}

static const struct data_source *find_source(const char *folder) {
    const struct data_source *const *source = catalogue->sources;
    while (*source && !(*source)->found(folder))
        source++;
    return *source;
}

// Returns the first folder with images, or the one that make data creates.
static const char *find_folder(void) {
    static const char *const folders[] = {"data/mnist", "data/fashion-mnist", "data/cifar10",
                                          "data/digits"};
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if (find_source(folders[i]))
            return folders[i];
    return folders[0];
}

// Says which folder below this one has data, or which file there another program reads. Returns 0
// if it knows none.
static int explain(const char *folder, char why[WHY_SIZE]) {
    static const char *const inner[] = {
        "mnist", "fashion-mnist",       "cifar10", "MNIST/raw", "FashionMNIST/raw",
        "raw",   "cifar-10-batches-bin"};
    char path[PATH_MAX];
    for (size_t i = 0; i < sizeof inner / sizeof *inner; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, inner[i]);
        if (find_source(path))
            return refuse(why, "%s: has no data itself, but %s has: use --data %s", folder, path,
                          path);
    }
    snprintf(path, sizeof path, "%s/{,*/}{data_batch_1,*.npz,*.parquet}", folder);
    glob_t others;
    if (glob(path, GLOB_BRACE, NULL, &others))
        return 0;
    refuse(why,
           "%s: no file that this program reads; make data fetches the images of MNIST "
           "(train-images-idx3-ubyte and so on), make data SET=cifar10 those of CIFAR-10 "
           "(data_batch_1.bin and so on)",
           others.gl_pathv[0]);
    globfree(&others);
    return -1;
}

// Writes what identifies this set to text, and returns the text's length.
static size_t describe(const char *name, const struct dataset *set, char *text, size_t size) {
    uLong values = crc32_z(0, set->values, set->count * set->inputs);
    uLong labels = crc32_z(0, set->labels, set->count * set->targets);
    return snprintf(text, size,
                    "number of %s %s: %zu, %s shape: %d x %d x %d, checksum of the %s %s: %08lx, "
                    "checksum of the %s labels: %08lx, ",
                    name, data_samples, set->count, name, set->shape.height, set->shape.width,
                    set->shape.channels, name, data_samples, values, name, labels);
}

int data_load(struct dataset *train, struct dataset *test, const char **folder,
              char why[WHY_SIZE]) {
    *train = *test = (struct dataset){.count = 0};
    if (!strcmp(*folder, "auto"))
        *folder = find_folder();
    const struct data_source *source = find_source(*folder);
    if (!source && explain(*folder, why))
        return -1;
    if (!source)
        source = &idx_files; // which says that the files of MNIST are missing
    data_samples = source->samples;
    *train = *test = (struct dataset){.targets = source->targets, .classes = source->classes};
    if (source->read(train, *folder, 0, why) || source->read(test, *folder, 1, why))
        return -1;
    struct shape a = train->shape, b = test->shape;
    if (a.height != b.height || a.width != b.width || a.channels != b.channels)
        return refuse(why,
                      "%s: training images have %d x %d pixels and %d channels, test images "
                      "%d x %d and %d",
                      *folder, a.height, a.width, a.channels, b.height, b.width, b.channels);
    train->inputs = test->inputs = shape_size(a);
    data_tokens = train->tokens ? train->targets : 0;
    size_t used = describe("training", train, data_contents, sizeof data_contents);
    describe("test", test, data_contents + used, sizeof data_contents - used);
    if (!train->tokens)
        data_measure(train);
    memcpy(test->mean, train->mean, sizeof test->mean);
    memcpy(test->deviation, train->deviation, sizeof test->deviation);
    return 0;
}

void print_data(const char *folder, const struct dataset *train, const struct dataset *test) {
    // Beside drawn digits, tools/data.sh writes this file.
    say("data      %s%s: %zu training and %zu test %s", folder,
        data_exists(folder, "drawn.txt") ? " (drawn digits, not MNIST)" : "", train->count,
        test->count, data_samples);
    if (train->tokens) {
        say(" of %d tokens (bytes), loss in nats per token\n", train->targets);
        return;
    }
    say(", pixel mean");
    for (int i = 0; i < train->shape.channels; i++)
        say(" %.4f", train->mean[i]);
    say(", deviation");
    for (int i = 0; i < train->shape.channels; i++)
        say(" %.4f", train->deviation[i]);
    say("\n");
}

static void array_to_device(uint8_t **array, size_t bytes) {
    uint8_t *host = *array;
    DEVICE_ALLOC(*array, "data", bytes);
    CUDA_CHECK(cudaMemcpy(*array, host, bytes, cudaMemcpyHostToDevice));
    free(host);
}

void data_to_device(struct dataset *set) {
    array_to_device(&set->values, set->count * set->inputs);
    array_to_device(&set->labels, set->count * set->targets);
}

void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch) {
    uint64_t key = rng_bits(seed, ~epoch); // the initial parameters use other random numbers
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = rng_bits(key, i) % i; // the bias is below count / 2^64
        uint32_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}
