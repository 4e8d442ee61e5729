// Kernels of images, as common/kernels/kernels.h describes them.
#pragma once
#include "common/kernels/kernels.h"

// Square windows on an image, at rows and columns stride apart. The first one begins padding rows
// above and padding columns left of the image. Windows see zeros outside the image.
struct windows {
    struct shape in;
    int size, stride, padding;
    int height, width; // number of windows in a column and in a row
};

// Copies windows to rows of a matrix. With [ky, kx, c] an element of the window [wy, wx] and (y, x)
// = stride * (wy, wx) + (ky, kx) - padding:
//   patches[image, wy, wx, ky, kx, c] = x[image, y, x, c], or 0 outside the image
// An element has element_size bytes, 2 or 4.
void image_to_patches(const void *x, void *patches, int images, const struct windows *w,
                      size_t element_size, cudaStream_t stream);

// Returns how many bytes of patches a program should have at a time. On a GPU they are so many that
// their product with the weights keeps all multiprocessors busy, and on the CPU device so few that
// most of them are still in the caches when the product reads them.
size_t patch_workspace(void);

// The backward pass of image_to_patches: dx[image, y, x, c] = sum of the elements of dpatches to
// which the value was copied.
void patches_to_image(const float *dpatches, float *dx, int images, const struct windows *w,
                      cudaStream_t stream);

// y[image, wy, wx, c] = the largest value of channel c in the window. The windows must not overlap
// and have no padding. Backward gives dy to the largest value, the first of equal ones, and 0 to
// all others.
void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream);
void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream);

// y[image, c] = mean of x[image, y, x, c] over all pixels, and its backward pass.
void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream);
void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream);

// Shifts and mirrors each image at random, as RandomCrop(size, padding=most_shift) and
// RandomHorizontalFlip of torchvision do. Image i has the random numbers first + i of the seed. Two
// shifts are uniform in -most_shift, ..., most_shift, and with flip, the image is mirrored with
// probability 1/2:
//   y[i, row, column, c] = x[i, row + shift, (mirrored ? width - 1 - column : column) + shift', c]
// or black[c] outside the image.
struct augmentation {
    struct shape in;
    int most_shift, flip;
    float black[MOST_CHANNELS]; // the value of a black pixel
};
void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream);

// How the random numbers become shifts, for the kernel and its test.
struct image_change {
    int shift_y, shift_x, mirrored;
};

// Returns a number from -most to most. bits is uniform in 0, ..., 2^24 - 1.
HOST_DEVICE_FUNCTION int shift_of(uint64_t bits, int most) {
    return (int)(bits * (2 * (uint64_t)most + 1) >> 24) - most;
}

// Returns how augment_images changes the image with these random numbers.
HOST_DEVICE_FUNCTION struct image_change image_change(const struct augmentation *a, uint64_t seed,
                                                      uint64_t index) {
    uint64_t bits = rng_bits(seed, index), mask = (1 << 24) - 1;
    struct image_change change = {shift_of(bits & mask, a->most_shift),
                                  shift_of(bits >> 24 & mask, a->most_shift),
                                  a->flip && bits >> 63};
    return change;
}
