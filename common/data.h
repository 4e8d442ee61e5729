// A data set of labelled samples, such as the images of MNIST, and the order in which an epoch uses
// the samples.
#pragma once
#include "common/error.h"
#include <stddef.h>
#include <stdint.h>

enum { MOST_CHANNELS = 4 };

struct dataset {
    size_t count; // samples
    int channels; // of a sample, such as 3 for red, green and blue
    int inputs;   // values of a sample, the same number in each channel
    int targets;  // labels of a sample
    int classes;
    // Of the values / 255 of each channel. With mean 0 and deviation 1 / 255.f, the inputs of the
    // model are the bytes themselves.
    float mean[MOST_CHANNELS], deviation[MOST_CHANNELS];
    uint8_t *values; // [count, inputs], channel after channel
    uint8_t *labels; // [count, targets], each below classes
};

// Reads {train,t10k}-{images-idx3,labels-idx1}-ubyte, plain or as .gz files, from the folder
// (format: http://yann.lecun.com/exdb/mnist). The folder "auto" stands for data/mnist, or for
// data/fashion-mnist if only that has images; *folder then gets its name. The folder "synthetic"
// needs no files: it has as many samples as MNIST, each computed from its index. Both sets get the
// training set's mean and deviation. The caller owns the arrays, which are in host memory or NULL.
// Returns 0, or -1 with the reason in why, such as a missing or damaged file.
int data_load(struct dataset *train, struct dataset *test, const char **folder, char why[WHY_SIZE]);

// Sets the mean and deviation of each channel (MNIST: 0.1307 and 0.3081) from the values.
void data_measure(struct dataset *set);

// Prints the banner's line about the data.
void print_data(const char *folder, const struct dataset *train, const struct dataset *test);

// Copies the arrays to device memory, and frees those in host memory.
void data_to_device(struct dataset *set);

// order[0..count) = a permutation of 0..count-1 (Fisher-Yates), which depends only on seed and
// epoch.
void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch);
