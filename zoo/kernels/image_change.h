// How the random numbers of augment_images become shifts, for the kernel and its test.
#pragma once
#include "common/base/rng.h"
#include "zoo/kernels/image_kernels.h"

struct image_change {
    int shift_y, shift_x, mirrored;
};

// Returns a number from -most to most. bits is uniform in 0, ..., 2^24 - 1.
HOST_DEVICE_FUNCTION int shift_of(uint64_t bits, int most) {
    return (int)(bits * (2 * (uint64_t)most + 1) >> 24) - most;
}

// Returns the change of the image with this index.
HOST_DEVICE_FUNCTION struct image_change image_change(const struct augmentation *a, uint64_t seed,
                                                      uint64_t index) {
    uint64_t bits = rng_bits(seed, index), mask = (1 << 24) - 1;
    struct image_change change = {shift_of(bits & mask, a->most_shift),
                                  shift_of(bits >> 24 & mask, a->most_shift),
                                  a->flip && bits >> 63};
    return change;
}
