// Conversions between float, bfloat16 and TF32. They round to nearest, with ties to even, as the
// hardware does. They use no branches and compare no floats, so gcc can vectorise loops over them.
#pragma once
#include <stdint.h>
#include <string.h>

static inline float bits_to_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t float_to_bits(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float bfloat16_to_float(uint16_t bfloat16) {
    return bits_to_float((uint32_t)bfloat16 << 16);
}

static inline uint16_t float_to_bfloat16(float value) {
    uint32_t bits = float_to_bits(value), rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    return (uint16_t)((bits & 0x7fffffff) > 0x7f800000 ? 0x7fff : rounded);
}

// Rounds to TF32, which keeps 10 bits of the fraction of a float.
static inline float float_to_tf32(float value) {
    uint32_t bits = float_to_bits(value), rounded = (bits + 0xfff + (bits >> 13 & 1)) & ~0x1fffu;
    return bits_to_float((bits & 0x7fffffff) < 0x7f800000 ? rounded : bits);
}
