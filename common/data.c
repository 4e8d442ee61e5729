#include "data.h"
#include "error.h"
#include "rng.h"
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

// The bytes of one IDX file with the given number of dimensions, whose lengths go into shape.
static int read_idx(gzFile file, const char *path, int dimensions, uint32_t *shape, uint8_t **bytes,
                    char why[WHY_SIZE]) {
    enum { MOST_BYTES = 1 << 30 };
    uint8_t header[16], extra;
    if (gzfread(header, 4, 1 + dimensions, file) != 1u + dimensions)
        return refuse(why, "%s: truncated or corrupt: no complete header", path);
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
        return refuse(why, "%s: truncated or corrupt: header promises %zu bytes", path, size);
    if (gzread(file, &extra, 1) != 0) // at the end this also checks gzip's own checksum
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
    if (!file)
        return refuse(why, "%s: %s; make data fetches the images, --data synthetic needs none",
                      path, strerror(errno));
    int result = read_idx(file, path, dimensions, shape, bytes, why);
    if (gzclose(file) != Z_OK && result == 0)
        result = refuse(why, "%s: truncated or corrupt", path);
    return result;
}

// Ten fixed random patterns, one a class, under noise of the same strength.
static int make_synthetic(struct dataset *set, size_t count, size_t first, char why[WHY_SIZE]) {
    size_t pixels = 28 * 28;
    *set = (struct dataset){count, pixels, 0, 0, malloc(count * pixels), malloc(count)};
    if (!set->images || !set->labels)
        return refuse(why, "no memory for %zu images", count);
    for (size_t i = 0; i < count; i++) {
        set->labels[i] = rng_bits(1, first + i) % CLASSES;
        for (size_t p = 0; p < pixels; p++)
            set->images[i * pixels + p] = (rng_bits(2, set->labels[i] * pixels + p) >> 57) +
                                          (rng_bits(3, (first + i) * pixels + p) >> 57);
    }
    return 0;
}

static int load_split(struct dataset *set, const char *folder, const char *split,
                      char why[WHY_SIZE]) {
    uint32_t shape[3], labels;
    if (read_file(folder, split, "images", 3, shape, &set->images, why) ||
        read_file(folder, split, "labels", 1, &labels, &set->labels, why))
        return -1;
    if (shape[0] != labels)
        return refuse(why, "%s: %s has %u images but %u labels", folder, split, shape[0], labels);
    for (uint32_t i = 0; i < labels; i++)
        if (set->labels[i] >= CLASSES)
            return refuse(why, "%s: %s label %u is %u, above 9", folder, split, i, set->labels[i]);
    set->count = labels;
    set->pixels = shape[1] * shape[2];
    return 0;
}

static void measure_pixels(struct dataset *set) {
    size_t pixels = set->count * set->pixels;
    uint64_t sum = 0, squares = 0; // whole numbers, so exact
    for (size_t i = 0; i < pixels; i++) {
        sum += set->images[i];
        squares += set->images[i] * set->images[i];
    }
    double mean = (double)sum / pixels, variance = (double)squares / pixels - mean * mean;
    set->mean = mean / 255;
    set->deviation = variance > 0 ? sqrt(variance) / 255 : 1; // a blank set stays finite
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
    if (!failed && train->pixels != test->pixels)
        failed = refuse(why, "%s: training images have %d pixels, test images %d", *folder,
                        train->pixels, test->pixels);
    if (failed)
        return -1;
    measure_pixels(train);
    test->mean = train->mean;
    test->deviation = train->deviation;
    return 0;
}

static void array_to_device(uint8_t **array, size_t bytes) {
    uint8_t *host = *array;
    DEVICE_ALLOC(*array, "data", bytes);
    CUDA_CHECK(cudaMemcpy(*array, host, bytes, cudaMemcpyHostToDevice));
    free(host);
}

void data_to_device(struct dataset *set) {
    array_to_device(&set->images, set->count * set->pixels);
    array_to_device(&set->labels, set->count);
}

void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch) {
    uint64_t key = rng_bits(seed, ~epoch); // far from the indices that weights use
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count; i > 1; i--) {
        size_t j = rng_bits(key, i) % i; // bias below count / 2^64
        uint32_t other = order[j];
        order[j] = order[i - 1];
        order[i - 1] = other;
    }
}
