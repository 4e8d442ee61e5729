// The exponential function for kernels of the CPU device.
#pragma once
#include <math.h>
#include <stdint.h>

// Returns e^x with an error of at most two units in the last place, and beyond -87 or 87 what it
// returns there. The compiler vectorizes a loop over it, but not one over expf. e^x = 2^n e^r with
// n = x / ln 2, rounded, and a polynomial for e^r (its Taylor series; r is at most ln(2) / 2). ln 2
// is the sum of two floats, so that r is exact. The bound has the sign of x: of two constants, gcc
// would compute what follows, and multiply by results that are denormal, which is slow.
static inline float exponential(float x) {
    const float shift = 0x1.8p23f; // the sum with it is rounded, and ends with the bits of n
    float size = fabsf(x), clamped = copysignf(size > 87.f ? 87.f : size, x);
    union {
        uint32_t bits;
        float value;
    } power = {.value = clamped * 1.44269504f + shift};
    float n = power.value - shift;
    float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p =
        1 + r * (1 + r * (1 / 2.f +
                          r * (1 / 6.f +
                               r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f + r / 5040.f))))));
    power.bits = (power.bits + 127) << 23; // of 2^n
    return p * power.value;
}
