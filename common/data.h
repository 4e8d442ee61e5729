// Labelled images from MNIST's IDX files, and the order in which an epoch visits them.
#pragma once
#include "error.h"
#include <stddef.h>
#include <stdint.h>

enum { CLASSES = 10 };

struct dataset {
    size_t count;          // samples
    int pixels;            // of one image
    float mean, deviation; // of the training set's pixels, scaled to 0..1 (MNIST: 0.1307, 0.3081)
    uint8_t *images;       // [count, pixels]
    uint8_t *labels;       // [count], each below CLASSES
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or with .gz after the name, from the
// folder (format: http://yann.lecun.com/exdb/mnist). The folder "auto" is data/mnist or, where only
// that has images, data/fashion-mnist; its name is put into *folder. The folder "synthetic" needs
// no files: as many samples as MNIST has, each a function of its index alone. The arrays are the
// caller's, in host memory, or NULL. Returns 0, or -1 with the reason in why; files that are not
// exactly right are refused.
int data_load(struct dataset *train, struct dataset *test, const char **folder, char why[WHY_SIZE]);

// Moves the arrays to device memory.
void data_to_device(struct dataset *set);

// order[0..count) = a permutation of 0..count-1 that depends on (seed, epoch) only (Fisher-Yates).
void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch);
