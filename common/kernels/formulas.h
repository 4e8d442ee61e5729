// The kernels of step 1 that handle each element of their arrays alone, once for both devices:
// kernels.cu and cpu_kernels.c include them. FORMULA(kernel) begins a function that computes
// element i, with the arguments in a. gpu_launch.h makes a kernel of it, and cpu_launch.h a loop.
// READS, WRITES, UPDATES and COMPUTES are for the CPU device. sgd_step is not here, because
// learners write its kernel and its loop.
#pragma once
#include "common/base/rng.h"
#include "common/kernels/bfloat16.h"
#include "common/kernels/kernels.h"

struct fill_uniform {
    float *values, bound;
    uint64_t seed, first;
};

FORMULA(fill_uniform) {
    a.values[i] = a.bound * (2.f * rng_uniform(a.seed, a.first + i) - 1.f);
}

void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream) {
    struct fill_uniform a = {WRITES(values, count), bound, seed, first};
    COMPUTES(39. * count);
    LAUNCH_FORMULA(fill_uniform, a, count, stream);
}

struct fill {
    float *values, value;
};

FORMULA(fill) {
    a.values[i] = a.value;
}

void fill(float *values, size_t count, float value, cudaStream_t stream) {
    struct fill a = {WRITES(values, count), value};
    LAUNCH_FORMULA(fill, a, count, stream);
}

struct add_to {
    float *sums;
    const float *x;
};

FORMULA(add_to) {
    a.sums[i] += a.x[i];
}

void add_to(float *sums, const float *x, size_t count, cudaStream_t stream) {
    struct add_to a = {UPDATES(sums, count), READS(x, count)};
    LAUNCH_FORMULA(add_to, a, count, stream);
}

struct relu_backward {
    float *dy;
    const float *y;
};

FORMULA(relu_backward) {
    a.dy[i] = a.y[i] <= 0.f ? 0.f : a.dy[i];
}

void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream) {
    struct relu_backward a = {UPDATES(dy, count), READS(y, count)};
    LAUNCH_FORMULA(relu_backward, a, count, stream);
}

struct to_bfloat16 {
    uint16_t *y;
    const float *x;
};

FORMULA(to_bfloat16) {
    a.y[i] = bfloat16_of(a.x[i]);
}

void to_bfloat16(uint16_t *y, const float *x, size_t count, cudaStream_t stream) {
    struct to_bfloat16 a = {WRITES(y, count), READS(x, count)};
    LAUNCH_FORMULA(to_bfloat16, a, count, stream);
}

struct from_bfloat16 {
    float *y;
    const uint16_t *x;
};

FORMULA(from_bfloat16) {
    a.y[i] = float_of(a.x[i]);
}

void from_bfloat16(float *y, const uint16_t *x, size_t count, cudaStream_t stream) {
    struct from_bfloat16 a = {WRITES(y, count), READS(x, count)};
    LAUNCH_FORMULA(from_bfloat16, a, count, stream);
}
