// Random numbers of NCCL's types.
#pragma once
#include "../src/floats.h"
#include "../src/reduce.h"
#include "random.h"
#include <math.h>

enum { TYPES = 9 };
static const ncclDataType_t types[TYPES] = {ncclInt8,    ncclUint8,   ncclInt32,
                                            ncclUint32,  ncclInt64,   ncclUint64,
                                            ncclFloat32, ncclFloat64, ncclBfloat16};

// Fills an array. Integers have random bits. Floats have mixed sizes, so the order of a sum
// matters.
static inline void random_numbers(ncclDataType_t type, char *array, size_t count, uint64_t seed) {
    size_t size = cpu_type_size(type);
    for (size_t i = 0; i < count; i++) {
        uint64_t bits = random_bits(seed, i);
        double wide = ldexp((double)(int64_t)bits, (int)(bits % 12) - 61);
        float narrow = (float)wide;
        uint16_t bfloat16 = float_to_bfloat16(narrow);
        const void *number = type == ncclFloat64    ? (void *)&wide
                             : type == ncclFloat32  ? (void *)&narrow
                             : type == ncclBfloat16 ? (void *)&bfloat16
                                                    : &bits; // the machine is little-endian
        memcpy(array + i * size, number, size);
    }
}
