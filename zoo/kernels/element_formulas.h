// The kernels of the zoo that handle each element of their arrays alone, once for both devices, as
// common/kernels/formulas.h explains.
#pragma once
#include "common/base/rng.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/kernels/values.h"
#include <math.h>

struct fill_normal {
    float *values, deviation;
    uint64_t seed, first;
};

FORMULA(fill_normal) {
    a.values[i] = a.deviation * rng_normal(a.seed, a.first + i);
}

void fill_normal(float *values, size_t count, float deviation, uint64_t seed, uint64_t first,
                 cudaStream_t stream) {
    struct fill_normal a = {WRITES(values, count), deviation, seed, first};
    COMPUTES(46. * count);
    LAUNCH_FORMULA(fill_normal, a, count, stream);
}

struct add_relu {
    const float *a, *b;
    float *y;
};

FORMULA(add_relu) {
    float sum = a.a[i] + a.b[i];
    a.y[i] = sum < 0.f ? 0.f : sum; // NaN stays NaN
}

void add_relu(const float *a, const float *b, float *y, size_t count, cudaStream_t stream) {
    struct add_relu arguments = {READS(a, count), READS(b, count), WRITES(y, count)};
    LAUNCH_FORMULA(add_relu, arguments, count, stream);
}

struct drop_values {
    const void *x;
    void *y;
    float rate;
    uint64_t seed;
    struct numbers numbers;
};

// The type is a constant in each kernel, so that compilers vectorize both.
DEVICE_FUNCTION void drop_value(struct drop_values a, cudaDataType type, size_t i) {
    int dropped = rng_uniform(a.seed, rng_number(a.numbers, i)) < a.rate;
    set_value(a.y, type, i, dropped ? 0.f : value_at(a.x, type, i) / (1.f - a.rate));
}

struct drop_floats {
    struct drop_values values;
};

FORMULA(drop_floats) {
    drop_value(a.values, CUDA_R_32F, i);
}

struct drop_bfloat16 {
    struct drop_values values;
};

FORMULA(drop_bfloat16) {
    drop_value(a.values, CUDA_R_16BF, i);
}

void drop_values(const void *x, void *y, cudaDataType type, size_t count, float rate, uint64_t seed,
                 struct numbers numbers, cudaStream_t stream) {
    struct drop_values values = {READS_VALUES(x, type, count), WRITES_VALUES(y, type, count), rate,
                                 seed, numbers};
    struct drop_floats floats = {values};
    struct drop_bfloat16 halves = {values};
    COMPUTES(86. * count);
    if (type == CUDA_R_32F)
        LAUNCH_FORMULA(drop_floats, floats, count, stream);
    else
        LAUNCH_FORMULA(drop_bfloat16, halves, count, stream);
}

struct nesterov_step {
    float *parameters;
    const float *gradients;
    float *velocity, lr, momentum, weight_decay;
};

FORMULA(nesterov_step) {
    float gradient = a.gradients[i] + a.weight_decay * a.parameters[i];
    a.velocity[i] = a.momentum * a.velocity[i] + gradient;
    a.parameters[i] -= a.lr * (gradient + a.momentum * a.velocity[i]);
}

void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream) {
    struct nesterov_step a = {UPDATES(parameters, count),
                              READS(gradients, count),
                              UPDATES(velocity, count),
                              lr,
                              momentum,
                              weight_decay};
    LAUNCH_FORMULA(nesterov_step, a, count, stream);
}

struct adam_step {
    float *parameters;
    const float *gradients;
    float *first_moments, *second_moments;
    float decay, shrink, rest1, beta2, rest2, epsilon, step_size, bias_correction;
};

FORMULA(adam_step) {
    float gradient = a.gradients[i] + a.decay * a.parameters[i];
    a.first_moments[i] += a.rest1 * (gradient - a.first_moments[i]);
    a.second_moments[i] = a.beta2 * a.second_moments[i] + a.rest2 * gradient * gradient;
    float deviation = sqrtf(a.second_moments[i]) * a.bias_correction + a.epsilon;
    a.parameters[i] = a.shrink * a.parameters[i] - a.step_size * a.first_moments[i] / deviation;
}

void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               double beta1, double beta2, float epsilon, long step, cudaStream_t stream) {
    struct adam_step a = {UPDATES(parameters, count),
                          READS(gradients, count),
                          UPDATES(first_moments, count),
                          UPDATES(second_moments, count),
                          decoupled ? 0.f : weight_decay,
                          decoupled ? (float)(1 - (double)lr * weight_decay) : 1.f,
                          (float)(1 - beta1),
                          (float)beta2,
                          (float)(1 - beta2),
                          epsilon,
                          (float)(lr / (1 - pow(beta1, (double)step))),
                          (float)(1 / sqrt(1 - pow(beta2, (double)step)))};
    LAUNCH_FORMULA(adam_step, a, count, stream);
}

struct adadelta_step {
    float *parameters;
    const float *gradients;
    float *squares, *changes;
    float lr, weight_decay, rho, rest, epsilon;
};

FORMULA(adadelta_step) {
    float gradient = a.gradients[i] + a.weight_decay * a.parameters[i];
    a.squares[i] = a.rho * a.squares[i] + a.rest * gradient * gradient;
    float change = sqrtf(a.changes[i] + a.epsilon) / sqrtf(a.squares[i] + a.epsilon) * gradient;
    a.changes[i] = a.rho * a.changes[i] + a.rest * change * change;
    a.parameters[i] -= a.lr * change;
}

void adadelta_step(float *parameters, const float *gradients, float *squares, float *changes,
                   size_t count, float lr, float weight_decay, double rho, float epsilon,
                   cudaStream_t stream) {
    struct adadelta_step a = {UPDATES(parameters, count),
                              READS(gradients, count),
                              UPDATES(squares, count),
                              UPDATES(changes, count),
                              lr,
                              weight_decay,
                              (float)rho,
                              (float)(1 - rho),
                              epsilon};
    LAUNCH_FORMULA(adadelta_step, a, count, stream);
}
