// Random numbers of NCCL's types.
#pragma once
#include "../src/floats.h"
#include "../src/reduce.h"
#include "random.h"
#include <math.h>

// Fills an array. Integers have random bits. Floats have mixed sizes, so the order of a sum
// matters, and are below 2^13, which a half can hold.
static inline void random_numbers(ncclDataType_t type, char *array, size_t count, uint64_t seed) {
    size_t size = cpu_type_size(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(seed, i);
        double wide = ldexp((double)(int64_t)bits, (int)(bits % 12) - 61);
        float narrow = (float)wide;
        uint16_t half = float_to_half(narrow), bfloat16 = float_to_bfloat16(narrow);
        const void *number = type == ncclFloat64    ? (void *)&wide
                             : type == ncclFloat32  ? (void *)&narrow
                             : type == ncclFloat16  ? (void *)&half
                             : type == ncclBfloat16 ? (void *)&bfloat16
                                                    : &bits; // the machine is little-endian
        memcpy(array + i * size, number, size);
    }
}
