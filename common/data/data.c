#include "common/data/data.h"
#include "common/base/error.h"
#include "common/base/minmax.h"
#include "common/base/rng.h"
#include "common/base/say.h"
#include "common/data/datasets.h"
#include "common/data/loader.h"
#include "common/device/device.h"
#include "common/training/catalogue.h"
#include "common/training/training_options.h"
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

static const struct data_source *find_source(const char *folder) {
    const struct data_source *const *s = catalogue->sources;
    while (*s && !((*s)->found ? (*s)->found(folder) : !strcmp(folder, (*s)->word)))
        s++;
    return *s;
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

size_t data_bytes(const struct dataset *set) {
    return set->count * (set->inputs + set->targets);
}

// What a pass over the samples finds.
struct contents {
    uLong values, labels;                                 // checksums
    uint64_t sums[MOST_CHANNELS], squares[MOST_CHANNELS]; // of the values: integers, so exact
};

static void add_block(struct contents *c, const struct dataset *set, const uint8_t *values,
                      const uint8_t *labels, size_t samples) {
    size_t count = samples * set->inputs, channels = set->shape.channels;
    c->values = crc32_z(c->values, values, count);
    c->labels = crc32_z(c->labels, labels, samples * set->targets);
    for (size_t channel = 0; !set->tokens && channel < channels; channel++) {
        uint64_t sum = 0, squares = 0;
        for (size_t i = channel; i < count; i += channels) {
            sum += values[i];
            squares += values[i] * values[i];
        }
        c->sums[channel] += sum;
        c->squares[channel] += squares;
    }
}

// Sets the mean and deviation of each channel (MNIST: 0.1307 and 0.3081).
static void normalise(struct dataset *set, const struct contents *c) {
    double values = (double)set->count * set->inputs / set->shape.channels;
    for (int i = 0; i < set->shape.channels; i++) {
        double mean = c->sums[i] / values, variance = c->squares[i] / values - mean * mean;
        set->mean[i] = mean / 255;
        set->deviation[i] = variance > 0 ? sqrt(variance) / 255 : 1; // blank: no x / 0
    }
}

enum { BLOCK = 1 << 24, LARGE = 1 << 30, SAMPLED = 1024 };

// Returns how many samples fit into a block of memory.
static size_t samples_of_block(const struct dataset *set) {
    return max_size(1, BLOCK / (set->inputs + set->targets));
}

// Reads the samples block by block, and keeps them in the arrays of a set that is not large. Of a
// large text, reads samples that lie equally far apart.
static int look_through(struct dataset *set, int large, struct contents *c, char why[WHY_SIZE]) {
    int keep = opt.load != LOAD_STREAM && !large;
    size_t block = min_size(samples_of_block(set), set->count), step = block;
    if (large && set->tokens) {
        block = 1;
        step = max_size(1, set->count / SAMPLED);
    }
    size_t room = keep ? set->count : block;
    uint8_t *values = malloc(room * set->inputs), *labels = malloc(room * set->targets);
    if (!values || !labels)
        return refuse(why, "no memory for %zu %s", room, data_samples);
    int failed = 0;
    for (size_t first = 0; first < set->count && !failed; first += step) {
        size_t count = min_size(block, set->count - first), at = keep ? first : 0;
        uint8_t *v = values + at * set->inputs, *l = labels + at * set->targets;
        failed = set->source->read(set, first, count, v, l, why) || data_unchanged(why);
        if (!failed)
            add_block(c, set, v, l, count);
    }
    if (keep && !failed) {
        set->values = values;
        set->labels = labels;
        return 0;
    }
    free(values);
    free(labels);
    return failed;
}

static int open_set(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    if (set->source->open(set, folder, test, why))
        return -1;
    set->inputs = shape_size(set->shape);
    return 0;
}

// Looks through an open set. Writes what identifies it to text.
static int read_set(struct dataset *set, const char *name, int large, char *text, size_t size,
                    char why[WHY_SIZE]) {
    struct contents c = {0};
    if (look_through(set, large, &c, why))
        return -1;
    if (!set->tokens)
        normalise(set, &c);
    snprintf(text, size,
             "number of %s %s: %zu, %s shape: %d x %d x %d, checksum of the %s %s: %08lx, "
             "checksum of the %s labels: %08lx, ",
             name, data_samples, set->count, name, set->shape.height, set->shape.width,
             set->shape.channels, name, data_samples, c.values, name, c.labels);
    return 0;
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
    *train = *test =
        (struct dataset){.source = source, .targets = source->targets, .classes = source->classes};
    if (open_set(train, *folder, 0, why))
        return -1;
    test->files = train->files;
    if (open_set(test, *folder, 1, why))
        return -1;
    struct shape a = train->shape, b = test->shape;
    if (a.height != b.height || a.width != b.width || a.channels != b.channels)
        return refuse(why,
                      "%s: training images have %d x %d pixels and %d channels, test images "
                      "%d x %d and %d",
                      *folder, a.height, a.width, a.channels, b.height, b.width, b.channels);
    int large = data_bytes(train) + data_bytes(test) > LARGE;
    char *text = data_contents, *end = text + sizeof data_contents;
    if (read_set(train, "training", large, text, end - text, why))
        return -1;
    text += strlen(text);
    if (read_set(test, "test", large, text, end - text, why))
        return -1;
    data_tokens = train->tokens ? train->targets : 0;
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
    } else {
        say(", pixel mean");
        for (int i = 0; i < train->shape.channels; i++)
            say(" %.4f", train->mean[i]);
        say(", deviation");
        for (int i = 0; i < train->shape.channels; i++)
            say(" %.4f", train->deviation[i]);
        say("\n");
    }
    print_loader(train);
}

void data_to_device(struct dataset *set) {
    char why[WHY_SIZE];
    size_t inputs = set->inputs, targets = set->targets, block = set->count;
    uint8_t *values = set->values, *labels = set->labels;
    int read = !values;
    DEVICE_ALLOC(set->values, "data", set->count * inputs);
    DEVICE_ALLOC(set->labels, "data", set->count * targets);
    if (read) {
        block = samples_of_block(set);
        values = malloc(block * inputs);
        labels = malloc(block * targets);
    }
    for (size_t first = 0; first < set->count; first += block) {
        size_t count = min_size(block, set->count - first);
        if (read &&
            (set->source->read(set, first, count, values, labels, why) || data_unchanged(why)))
            fail("%s", why);
        CUDA_CHECK(cudaMemcpy(set->values + first * inputs, values, count * inputs,
                              cudaMemcpyHostToDevice));
        CUDA_CHECK(cudaMemcpy(set->labels + first * targets, labels, count * targets,
                              cudaMemcpyHostToDevice));
    }
    free(values);
    free(labels);
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
