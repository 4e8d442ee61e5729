// More sources of data sets, one per file of this folder. A new source needs a new file, its lines
// here, and its place in the list in zoo/zoo.c.
#pragma once
#include "common/data/datasets.h"

// data_batch_{1,2,3,4,5}.bin and test_batch.bin, the binary version of CIFAR-10 (format:
// https://www.cs.toronto.edu/~kriz/cifar.html). Each image of 32 x 32 pixels is a record of 3073
// bytes: the label, then all red, all green and all blue values, row by row. A file has 1 to 10000
// whole records, so a small set for a test is a valid set. The five training files must have
// equally many, so a training file that was cut between two records is refused.
extern const struct data_source cifar_files;

// The word "shapes": 10000 training and 2000 test images of 32 x 32 pixels in colour, each computed
// from its index. An image shows one of ten shapes, such as a plus or an L, with random colours, at
// a random size and place, on a noisy ground. A convolutional network can learn the shapes, as it
// looks for the same strokes everywhere. A multilayer perceptron would have to learn each shape at
// each place, for which the images are too few.
extern const struct data_source shape_images;

// "blank:COUNT", such as blank:4096: that many training images of zeros with the label 0, and a
// sixth as many test images. For runs that only take times: other synthetic images take a second to
// make.
extern const struct data_source blank_images;

// "text:FILE", or a folder with the file input.txt: sequences of the bytes of a file of any kind,
// or of a folder of files that are one text (text_files.h). The word "text" stands for the stories
// of story.h. Sample i has the bytes from i * context on, and its targets are the bytes after each
// of them. The last tenth is the test set: no byte of it is a target of a training sample. Bytes
// that fill no whole sample at the end of a set are not used.
extern const struct data_source text_bytes;
