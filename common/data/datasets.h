// The sources of data sets, one per file: those of common/, and what all of them call.
#pragma once
#include "common/data/data.h"
#include <limits.h>
#include <time.h>

struct data_source {
    // Returns 1 if the folder of --data holds files of this format. NULL: it must be the word
    // below.
    int (*found)(const char *folder);
    // Opens the training set, or the test set if test is 1: sets count, shape and files of the
    // empty set. The test set comes second, and its files are at first those of the training set.
    // It may set tokens with their mean and deviation, and change the targets and classes, which
    // are at first those below. Returns 0, or -1 with the reason in why.
    int (*open)(struct dataset *set, const char *folder, int test, char why[WHY_SIZE]);
    // Reads, or computes, the samples first, ..., first + count - 1 of an open set. Several threads
    // may call it at once. Returns 0, or -1 with the reason in why.
    int (*read)(const struct dataset *set, size_t first, size_t count, uint8_t *values,
                uint8_t *labels, char why[WHY_SIZE]);
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

// A file of a set. It stays open until the program ends.
struct data_file {
    int descriptor;
    size_t size;
    struct timespec changed;
    char path[PATH_MAX];
};

// Opens folder/name. If there is only folder/name.gz, unpacks it into memory, because a compressed
// file cannot be read from the middle. Returns 0, or -1 with the reason in why: if there is
// neither, that this make target fetches the images.
int data_open(struct data_file *file, const char *folder, const char *name, const char *target,
              char why[WHY_SIZE]);

// 1: data_open has unpacked a file.
extern int data_unpacked;

// Opens the file of this path, as it is. data_know sets the size of a file whose descriptor and
// path are set. Both return 0, or -1 with the reason in why.
int data_open_plain(struct data_file *file, const char *path, char why[WHY_SIZE]);
int data_know(struct data_file *file, char why[WHY_SIZE]);

// Reads this many bytes from this offset on. Returns 0, or -1 with the reason in why: a fault of
// the disk, or the end of the file.
int data_read(const struct data_file *file, size_t offset, void *bytes, size_t size,
              char why[WHY_SIZE]);

// Returns -1 with the reason in why if another program has changed a file since it was opened: one
// of those that this thread has read since its last call. Call it before the bytes are used.
int data_unchanged(char why[WHY_SIZE]);

// Returns new memory for the files of a set, or ends the program.
void *data_files(size_t count, size_t size);

// Returns 1 if folder/name or folder/name.gz exists.
int data_exists(const char *folder, const char *name);
