// The sources of data sets, one per file: those of common/, and what all of them call.
#pragma once
#include "common/data/data.h"
#include <limits.h>
#include <zlib.h>

struct data_source {
    // Returns 1 if the folder of --data holds files of this format, or is the word below.
    int (*found)(const char *folder);
    // Sets count, shape, values and labels of the empty set to those of the training set, or of the
    // test set if test is 1. It may set tokens with their mean and deviation, and change the
    // targets and classes, which are at first those below. Returns 0, or -1 with the reason in why.
    // The caller frees the arrays, also after a failure.
    int (*read)(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]);
    int targets, classes; // labels of a sample, and each of them is below classes
    const char *samples;  // what messages call the samples, such as "images"
    const char *word;     // what users type for data without files, such as "shapes"; NULL: files
};

// {train,t10k}-{images-idx3,labels-idx1}-ubyte, the files of MNIST and of Fashion-MNIST (format:
// http://yann.lecun.com/exdb/mnist), or with a dot, as in images.idx3. Images may have any size, in
// shades of grey. The two files must have as many images as labels, and nothing after them.
extern const struct data_source idx_files;

// The word "synthetic": as many samples as MNIST, each computed from its index.
extern const struct data_source synthetic_images;

// Sets count, shape, values and labels of the set, with new arrays, for set->targets labels each.
// Returns 0, or -1 with the reason in why.
int data_allocate(struct dataset *set, size_t count, struct shape shape, char why[WHY_SIZE]);

// Opens folder/name or folder/name.gz, which gzread reads as if it were not compressed, and sets
// path to its name. If there is neither, returns NULL and writes to why that this make target
// fetches the images.
gzFile data_open(const char *folder, const char *name, const char *target, char path[PATH_MAX],
                 char why[WHY_SIZE]);

// Reads up to this number of bytes, and returns how many there were, or -1 if the compressed file
// is damaged or cut. zlib 1.3.2 tells this once, perhaps with a read that gives all the bytes that
// it asks for, so each read must be checked.
long data_read(gzFile file, void *bytes, size_t size);

// Returns 1 if folder/name or folder/name.gz exists.
int data_exists(const char *folder, const char *name);
