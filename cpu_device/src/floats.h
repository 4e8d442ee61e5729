// Conversions between float and the 16-bit formats. They round to nearest, with ties to even, as
// the hardware does. They use no branches and compare no floats, so gcc can vectorise loops over
// them.
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

// Reads a subnormal as if it had the hidden bit 2^-14 (exponent 113), and then subtracts that bit.
static inline float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, magnitude = half & 0x7fff;
    uint32_t exponent = magnitude < 0x0400 ? 113 : magnitude < 0x7c00 ? 112 : 224;
    float subtracted = magnitude < 0x0400 ? 0x1p-14f : 0;
    float value = bits_to_float((magnitude << 13) + (exponent << 23)) - subtracted;
    return bits_to_float(sign | float_to_bits(value));
}

// Adds a number that is 2^13 times larger, so the FPU rounds to the last bit of the half.
// Subnormals round to the last bit of numbers from 2^-14 (exponent 113). Numbers from 2^16
// (exponent 143) become infinity.
static inline uint16_t float_to_half(float value) {
    uint32_t bits = float_to_bits(value), sign = bits >> 16 & 0x8000, magnitude = bits & 0x7fffffff;
    uint32_t bounded = magnitude < 143 << 23 ? magnitude : 143 << 23;
    uint32_t exponent = bounded > 113 << 23 ? bounded >> 23 : 113, larger = (exponent + 13) << 23;
    uint32_t significand = float_to_bits(bits_to_float(bounded) + bits_to_float(larger)) - larger;
    uint32_t number = ((exponent - 113) << 10) + significand;
    return (uint16_t)((magnitude > 0x7f800000 ? 0x7fff : sign) | number);
}
