// A bfloat16 is the upper half of a float. Kernels of both devices convert with these functions.
#pragma once
#include <stdint.h>
#include <string.h>

DEVICE_FUNCTION float float_of(uint16_t x) {
    float y;
    uint32_t bits = (uint32_t)x << 16;
    memcpy(&y, &bits, sizeof y);
    return y;
}

// Rounds to nearest, with ties to even, and keeps NaN.
DEVICE_FUNCTION uint16_t bfloat16_of(float x) {
#if __CUDA_ARCH__ >= 800
    uint16_t y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
#else
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    int is_nan = (bits & 0x7fffffff) > 0x7f800000;
    return (uint16_t)(is_nan ? 0x7fff : (bits + 0x7fff + (bits >> 16 & 1)) >> 16);
#endif
}
