#include "common/data/datasets.h"
#include <stdio.h>
#include <string.h>

#define TARGET "make data, or make data SET=fashion-mnist,"
#define AGAIN "delete the file; " TARGET " fetches it again"

enum { HIGHEST_LABEL = 9 }; // of the digits of MNIST and the clothes of Fashion-MNIST

struct idx {
    struct data_file images, labels;
    uint8_t label[]; // of each image: a read of one byte takes almost as long as that of an image
};

static size_t header_size(int dimensions) {
    return 4 + 4 * dimensions;
}

// Sets shape to the lengths of the dimensions. Returns 0, or -1 with the reason in why.
static int read_header(const struct data_file *file, int dimensions, uint32_t *shape,
                       char why[WHY_SIZE]) {
    enum { MOST_BYTES = 1 << 30 };
    uint8_t header[16];
    size_t start = header_size(dimensions), size = 1;
    if (file->size < start)
        return refuse(why, "%s: truncated or corrupt in its header; " AGAIN, file->path);
    if (data_read(file, 0, header, start, why))
        return -1;
    if (header[0] || header[1] || header[2] != 8 || header[3] != dimensions)
        return refuse(why, "%s: wrong magic: no IDX file of bytes in %d dimensions", file->path,
                      dimensions);
    for (int d = 0; d < dimensions; d++) {
        const uint8_t *b = header + 4 + 4 * d;
        shape[d] = (uint32_t)b[0] << 24 | (uint32_t)b[1] << 16 | (uint32_t)b[2] << 8 | b[3];
        if (shape[d] == 0 || shape[d] > MOST_BYTES / size)
            return refuse(why, "%s: impossible size: dimension %d is %u", file->path, d, shape[d]);
        size *= shape[d];
    }
    if (file->size < start + size)
        return refuse(why, "%s: truncated or corrupt: header promises %zu bytes; " AGAIN,
                      file->path, size);
    if (file->size > start + size)
        return refuse(why, "%s: goes on after the %zu bytes its header promises", file->path, size);
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

static int open_file(struct data_file *file, const char *folder, const char *split,
                     const char *kind, int dimensions, char why[WHY_SIZE]) {
    char name[64];
    find_file(folder, split, kind, dimensions, name);
    return data_open(file, folder, name, TARGET, why);
}

static int open_split(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]) {
    const char *split = test ? "t10k" : "train";
    uint32_t shape[3], count = 0;
    struct data_file images, labels;
    if (open_file(&images, folder, split, "images", 3, why) ||
        open_file(&labels, folder, split, "labels", 1, why))
        return -1;
    struct idx *idx = set->files = data_files(1, sizeof *idx + labels.size);
    *idx = (struct idx){images, labels};
    if (read_header(&idx->images, 3, shape, why) || read_header(&idx->labels, 1, &count, why))
        return -1;
    if (shape[0] != count)
        return refuse(why, "%s: %s has %u images but %u labels", folder, split, shape[0], count);
    if (data_read(&idx->labels, header_size(1), idx->label, count, why))
        return -1;
    for (uint32_t i = 0; i < count; i++)
        if (idx->label[i] > HIGHEST_LABEL)
            return refuse(why, "%s: label %u is %u, above 9", idx->labels.path, i, idx->label[i]);
    set->count = count;
    set->shape = (struct shape){(int)shape[1], (int)shape[2], 1};
    return 0;
}

static int read_images(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                       uint8_t *labels, char why[WHY_SIZE]) {
    const struct idx *idx = set->files;
    size_t size = set->inputs;
    memcpy(labels, idx->label + first, count);
    return data_read(&idx->images, header_size(3) + first * size, values, count * size, why);
}

static int found(const char *folder) {
    char name[64];
    return find_file(folder, "train", "images", 3, name);
}

const struct data_source idx_files = {found, open_split, read_images, 1, 10, "images", NULL};
