#include "common/data.h"
#include "common/device.h"
#include "common/error.h"
#include "common/report.h"
#include "common/rng.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#define AGAIN "delete the file and run make data"

enum { DIGITS = 10 }; // classes of MNIST and of Fashion-MNIST

// Reads an IDX file with this number of dimensions. Sets shape to their lengths, and *bytes to the
// values, which the caller frees.
static int read_idx(gzFile file, const char *path, int dimensions, uint32_t *shape, uint8_t **bytes,
                    char why[WHY_SIZE]) {
    enum { MOST_BYTES = 1 << 30 };
    uint8_t header[16], extra;
    if (gzfread(header, 4, 1 + dimensions, file) != 1u + dimensions)
        return refuse(why, "%s: truncated or corrupt: no complete header; " AGAIN, path);
    if (header[0] || header[1] || header[2] != 8 || header[3] != dimensions)
        return refuse(why, "%s: wrong magic: no IDX file of bytes in %d dimensions", path,
                      dimensions);
    size_t size = 1;
    for (int d = 0; d < dimensions; d++) {
        const uint8_t *b = header + 4 + 4 * d;
        shape[d] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        if (shape[d] == 0 || shape[d] > MOST_BYTES / size)
            return refuse(why, "%s: impossible size: dimension %d is %u", path, d, shape[d]);
        size *= shape[d];
    }
    if (!(*bytes = malloc(size)))
        return refuse(why, "%s: no memory for %zu bytes", path, size);
    if (gzfread(*bytes, 1, size, file) != size)
        return refuse(why, "%s: truncated or corrupt: header promises %zu bytes; " AGAIN, path,
                      size);
    if (gzread(file, &extra, 1) != 0) // at the end, this also checks gzip's checksum
        return refuse(why, "%s: goes on after the %zu bytes its header promises, or is corrupt",
                      path, size);
    return 0;
}

static int read_file(const char *folder, const char *split, const char *kind, int dimensions,
                     uint32_t *shape, uint8_t **bytes, char why[WHY_SIZE]) {
    char path[PATH_MAX];
    gzFile file = NULL;
    for (int i = 0; i < 2 && !file; i++) {
        snprintf(path, sizeof path, "%s/%s-%s-idx%d-ubyte%s", folder, split, kind, dimensions,
                 i ? ".gz" : "");
        file = gzopen(path, "rb"); // reads plain files as they are
    }
    if (!file) {
        const char *error = strerror(errno);
        int missing = access(folder, F_OK);
        return refuse(why, "%s: %s; make data fetches the images, --data synthetic needs none",
                      missing ? folder : path, missing ? "there is no such folder" : error);
    }
    int result = read_idx(file, path, dimensions, shape, bytes, why);
    if (gzclose(file) != Z_OK && result == 0)
        result = refuse(why, "%s: truncated or corrupt; " AGAIN, path);
    return result;
}

// Makes ten fixed random patterns, one per class, and adds noise of the same strength.
static int make_synthetic(struct dataset *set, size_t count, size_t first, char why[WHY_SIZE]) {
    size_t pixels = 28 * 28;
    *set = (struct dataset){.count = count,
                            .inputs = (int)pixels,
                            .values = malloc(count * pixels),
                            .labels = malloc(count)};
    if (!set->values || !set->labels)
        return refuse(why, "no memory for %zu images", count);
    for (size_t i = 0; i < count; i++) {
        set->labels[i] = rng_bits(1, first + i) % DIGITS;
        for (size_t p = 0; p < pixels; p++)
            set->values[i * pixels + p] = (rng_bits(2, set->labels[i] * pixels + p) >> 57) +
                                          (rng_bits(3, (first + i) * pixels + p) >> 57);
    }
    return 0;
}

static int load_split(struct dataset *set, const char *folder, const char *split,
                      char why[WHY_SIZE]) {
    uint32_t shape[3], labels;
    if (read_file(folder, split, "images", 3, shape, &set->values, why) ||
        read_file(folder, split, "labels", 1, &labels, &set->labels, why))
        return -1;
    if (shape[0] != labels)
        return refuse(why, "%s: %s has %u images but %u labels", folder, split, shape[0], labels);
    for (uint32_t i = 0; i < labels; i++)
        if (set->labels[i] >= DIGITS)
            return refuse(why, "%s: %s label %u is %u, above 9", folder, split, i, set->labels[i]);
    set->count = labels;
    set->inputs = shape[1] * shape[2];
    return 0;
}

static void measure_channel(struct dataset *set, int channel) {
    size_t size = set->inputs / set->channels, values = set->count * size;
    uint64_t sum = 0, squares = 0; // integers, so the sums are exact
    for (size_t sample = 0; sample < set->count; sample++) {
        const uint8_t *value = set->values + sample * set->inputs + channel * size;
        for (size_t i = 0; i < size; i++) {
            sum += value[i];
            squares += value[i] * value[i];
        }
    }
    double mean = (double)sum / values, variance = (double)squares / values - mean * mean;
    set->mean[channel] = mean / 255;
    set->deviation[channel] = variance > 0 ? sqrt(variance) / 255 : 1; // a blank channel: no x / 0
}

void data_measure(struct dataset *set) {
    for (int channel = 0; channel < set->channels; channel++)
        measure_channel(set, channel);
}

static int has_images(const char *folder) {
    char plain[PATH_MAX], packed[PATH_MAX];
    snprintf(plain, sizeof plain, "%s/train-images-idx3-ubyte", folder);
    snprintf(packed, sizeof packed, "%s/train-images-idx3-ubyte.gz", folder);
    return !access(plain, F_OK) || !access(packed, F_OK);
}

int data_load(struct dataset *train, struct dataset *test, const char **folder,
              char why[WHY_SIZE]) {
    const char *mnist = "data/mnist", *fashion = "data/fashion-mnist";
    *train = *test = (struct dataset){.count = 0};
    if (!strcmp(*folder, "auto"))
        *folder = !has_images(mnist) && has_images(fashion) ? fashion : mnist;
    int failed =
        !strcmp(*folder, "synthetic")
            ? make_synthetic(train, 60000, 0, why) || make_synthetic(test, 10000, 60000, why)
            : load_split(train, *folder, "train", why) || load_split(test, *folder, "t10k", why);
    if (!failed && train->inputs != test->inputs)
        failed = refuse(why, "%s: training images have %d pixels, test images %d", *folder,
                        train->inputs, test->inputs);
    if (failed)
        return -1;
    train->channels = test->channels = train->targets = test->targets = 1;
    train->classes = test->classes = DIGITS;
    data_measure(train);
    memcpy(test->mean, train->mean, sizeof test->mean);
    memcpy(test->deviation, train->deviation, sizeof test->deviation);
    return 0;
}

void print_data(const char *folder, const struct dataset *train, const struct dataset *test) {
    say("data      %s: %zu training and %zu test images, pixel mean", folder, train->count,
        test->count);
    for (int i = 0; i < train->channels; i++)
        say(" %.4f", train->mean[i]);
    say(", deviation");
    for (int i = 0; i < train->channels; i++)
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
