// A bfloat16 is the upper half of a float. Kernels of both devices convert with these functions.
#pragma once
#include <cublas_v2.h> // cudaDataType
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

// Element i of an array of this type, CUDA_R_32F or CUDA_R_16BF.
DEVICE_FUNCTION float value_at(const void *values, cudaDataType type, size_t i) {
    return type == CUDA_R_32F ? ((const float *)values)[i]
                              : float_of(((const uint16_t *)values)[i]);
}

DEVICE_FUNCTION void set_value(void *values, cudaDataType type, size_t i, float value) {
    if (type == CUDA_R_32F)
        ((float *)values)[i] = value;
    else
        ((uint16_t *)values)[i] = bfloat16_of(value);
}
