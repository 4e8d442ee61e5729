#include "common/data/datasets.h"
#include <stdio.h>
#include <stdlib.h>

#define TARGET "make data, or make data SET=fashion-mnist,"
#define AGAIN "delete the file; " TARGET " fetches it again"

enum { HIGHEST_LABEL = 9 }; // of the digits of MNIST and the clothes of Fashion-MNIST

// Reads an IDX file with this number of dimensions. Sets shape to their lengths, and *bytes to the
// values, which the caller frees.
static int read_idx(gzFile file, const char *path, int dimensions, uint32_t *shape, uint8_t **bytes,
                    char why[WHY_SIZE]) {
    enum { MOST_BYTES = 1 << 30 };
    uint8_t header[16], extra;
    if (data_read(file, header, 4 + 4 * dimensions) != 4 + 4 * dimensions)
        return refuse(why, "%s: truncated or corrupt in or after its header; " AGAIN, path);
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
    if (data_read(file, *bytes, size) != (long)size)
        return refuse(why, "%s: truncated or corrupt: header promises %zu bytes; " AGAIN, path,
                      size);
    if (data_read(file, &extra, 1) != 0) // at the end, this also checks gzip's checksum
        return refuse(why, "%s: goes on after the %zu bytes its header promises, or is corrupt",
                      path, size);
    return 0;
}

// Writes the name of the file that is there: some copies have a dot in it, such as
// train-images.idx3-ubyte. Returns 0 if there is neither.
static int find_file(const char *folder, const char *split, const char *kind, int dimensions,
                     char name[64]) {
    for (const char *sign = ".-"; *sign; sign++) {
        snprintf(name, 64, "%s-%s%cidx%d-ubyte", split, kind, *sign, dimensions);
        if (data_exists(folder, name))
            return 1;
    }
    return 0;
}

static int read_file(const char *folder, const char *split, const char *kind, int dimensions,
                     uint32_t *shape, uint8_t **bytes, char why[WHY_SIZE]) {
    char name[64], path[PATH_MAX];
    find_file(folder, split, kind, dimensions, name);
    gzFile file = data_open(folder, name, TARGET, path, why);
    if (!file)
        return -1;
    int result = read_idx(file, path, dimensions, shape, bytes, why);
    gzclose(file);
    return result;
}

static int read_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    const char *split = test ? "t10k" : "train";
    uint32_t shape[3], labels;
    if (read_file(folder, split, "images", 3, shape, &set->values, why) ||
        read_file(folder, split, "labels", 1, &labels, &set->labels, why))
        return -1;
    if (shape[0] != labels)
        return refuse(why, "%s: %s has %u images but %u labels", folder, split, shape[0], labels);
    for (uint32_t i = 0; i < labels; i++)
        if (set->labels[i] > HIGHEST_LABEL)
            return refuse(why, "%s: %s label %u is %u, above 9", folder, split, i, set->labels[i]);
    set->count = labels;
    set->shape = (struct shape){(int)shape[1], (int)shape[2], 1};
    return 0;
}

static int found(const char *folder) {
    char name[64];
    return find_file(folder, "train", "images", 3, name);
}

const struct data_source idx_files = {found, read_split, 1, 10, "images", NULL};
