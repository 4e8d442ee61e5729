// A data set of labelled samples, such as the images of MNIST or sequences of a text, and the order
// in which an epoch uses the samples.
#pragma once
#include "common/base/error.h"
#include <stddef.h>
#include <stdint.h>

// The shape of a sample: an image, or a plain vector, which is an image of one pixel. The values of
// an image are stored pixel by pixel, and those of a pixel channel by channel, as in "channels
// last" of PyTorch: value [y, x, c] has the index (y * width + x) * channels + c.
struct shape {
    int height, width, channels;
};
enum { MOST_CHANNELS = 4 };

// Returns the number of values.
static inline int shape_size(struct shape s) {
    return s.height * s.width * s.channels;
}

struct dataset {
    size_t count;       // samples
    struct shape shape; // of a sample; the channels are for example red, green and blue
    int inputs;         // values of a sample
    int targets;        // labels of a sample
    int classes;
    // Those of each channel's values / 255. With mean 0 and deviation 1 / 255.f, the inputs of the
    // model are the bytes themselves.
    float mean[MOST_CHANNELS], deviation[MOST_CHANNELS];
    int tokens; // 1: the values are tokens, such as the bytes of a text, and no brightness
    // [count, height, width, channels] and [count, targets]; each label is below classes. NULL:
    // only the source and its files have the samples.
    uint8_t *values, *labels;
    const struct data_source *source;
    void *files;
    struct loader *loader; // brings the samples to the device (common/data/loader.h)
    int unread;            // 1: this process computes with none of the samples
};

// Reads the samples of the folder. The files there decide which source reads them, or a word in its
// place, such as "synthetic" (struct data_source). "auto" stands for the first of data/mnist,
// data/fashion-mnist, data/cifar10 and data/digits that has images; *folder then gets its name.
// Both sets get the training set's mean and deviation. The caller owns the arrays, which are in
// host memory, or NULL: with --load stream, and of sets above 1 GiB. Returns 0, or -1 with the
// reason in why, such as a missing or damaged file.
int data_load(struct dataset *train, struct dataset *test, const char **folder, char why[WHY_SIZE]);

// What the samples of the set that data_load has read are called, such as "images".
extern const char *data_samples;

// The tokens of a sample of that set, or 0 for images. Reports of texts count tokens.
extern int data_tokens;

// What identifies the two sets that data_load has read: a text such as "number of training images:
// 60000, ..., checksum of the test labels: 7ae60f92, ". Another value, label, number, shape or
// order of samples changes it. Of a text above 1 GiB, it knows the size and 1024 samples, because
// to read all of it would take minutes.
extern char data_contents[384];

// Returns word number i for data without files, such as "shapes", or NULL after the last one.
const char *data_word(int i);

// Returns the bytes of all samples.
size_t data_bytes(const struct dataset *set);

// Copies all samples to device memory, from host memory, which it frees, or from the files. Ends
// the program if they cannot be read.
void data_to_device(struct dataset *set);

// Prints the banner's line about the data.
void print_data(const char *folder, const struct dataset *train, const struct dataset *test);

// order[0..count) = a permutation of 0..count-1 (Fisher-Yates), which depends only on seed and
// epoch.
void shuffle(uint32_t *order, size_t count, uint64_t seed, uint64_t epoch);
