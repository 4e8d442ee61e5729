// The kernels of zoo/kernels/element_kernels.h for the CPU device.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/element_kernels.h"
#include <math.h>

struct add_relu {
    const float *a, *b;
    float *y;
};

static void run_add_relu(void *arguments, size_t from, size_t to) {
    struct add_relu a = *(struct add_relu *)arguments;
    for (size_t i = from; i < to; i++) {
        float sum = a.a[i] + a.b[i];
        a.y[i] = sum < 0.f ? 0.f : sum; // NaN stays NaN
    }
}

void add_relu(const float *a, const float *b, float *y, size_t count, cudaStream_t stream) {
    struct add_relu arguments = {READS(a, count), READS(b, count), WRITES(y, count)};
    LAUNCH(stream, run_add_relu, arguments, count, GRAIN);
}

struct drop_values {
    const float *x;
    float *y, rate;
    uint64_t seed;
    struct numbers numbers;
};

static void run_drop_values(void *arguments, size_t from, size_t to) {
    struct drop_values a = *(struct drop_values *)arguments;
    for (size_t i = from; i < to; i++)
        a.y[i] =
            rng_uniform(a.seed, rng_number(a.numbers, i)) < a.rate ? 0.f : a.x[i] / (1.f - a.rate);
}

void drop_values(const float *x, float *y, size_t count, float rate, uint64_t seed,
                 struct numbers numbers, cudaStream_t stream) {
    struct drop_values a = {READS(x, count), WRITES(y, count), rate, seed, numbers};
    COMPUTES(count, 1);
    LAUNCH(stream, run_drop_values, a, count, GRAIN);
}

struct sum_squares {
    const float *x;
    size_t count;
    double *lanes;
};

static void run_sum_squares(void *arguments, size_t from, size_t to) {
    struct sum_squares a = *(struct sum_squares *)arguments;
    for (size_t lane = from; lane < to; lane++)
        a.lanes[lane] = 0;
    for (size_t first = 0; first < a.count; first += SQUARES_LANES) { // reads x in order
        size_t end = a.count - first < to ? a.count - first : to;
        for (size_t lane = from; lane < end; lane++)
            a.lanes[lane] += (double)a.x[first + lane] * a.x[first + lane];
    }
}

static void run_fold(void *arguments) {
    fold(((struct sum_squares *)arguments)->lanes, SQUARES_LANES, 1);
}

void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream) {
    struct sum_squares a = {READS(x, count), count, WRITES(sums, SQUARES_LANES)};
    LAUNCH(stream, run_sum_squares, a, SQUARES_LANES, rows_per_grain(count / SQUARES_LANES + 1));
    LAUNCH_ONE(stream, run_fold, a);
}

struct clip_to_norm {
    float *x;
    const double *sum_of_squares;
    float max_norm;
};

static void run_clip_to_norm(void *arguments, size_t from, size_t to) {
    struct clip_to_norm a = *(struct clip_to_norm *)arguments;
    float factor = (float)(a.max_norm / (sqrt(*a.sum_of_squares) + 1e-6));
    factor = factor > 1.f ? 1.f : factor; // NaN stays NaN
    for (size_t i = from; i < to; i++)
        a.x[i] *= factor;
}

void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream) {
    struct clip_to_norm a = {UPDATES(x, count), READS(sum_of_squares, 1), max_norm};
    LAUNCH(stream, run_clip_to_norm, a, count, GRAIN);
}

struct nesterov_step {
    float *parameters;
    const float *gradients;
    float *velocity;
    size_t count;
    float lr, momentum, weight_decay;
};

static void run_nesterov_step(void *arguments, size_t from, size_t to) {
    struct nesterov_step a = *(struct nesterov_step *)arguments;
    for (size_t i = from; i < to; i++) {
        float gradient = a.gradients[i] + a.weight_decay * a.parameters[i];
        a.velocity[i] = a.momentum * a.velocity[i] + gradient;
        a.parameters[i] -= a.lr * (gradient + a.momentum * a.velocity[i]);
    }
}

void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream) {
    struct nesterov_step a = {UPDATES(parameters, count),
                              READS(gradients, count),
                              UPDATES(velocity, count),
                              count,
                              lr,
                              momentum,
                              weight_decay};
    LAUNCH(stream, run_nesterov_step, a, count, GRAIN);
}

struct adam_step {
    float *parameters;
    const float *gradients;
    float *first_moments, *second_moments;
    float decay, shrink, rest1, beta2, rest2, epsilon, step_size, bias_correction;
};

static void run_adam_step(void *arguments, size_t from, size_t to) {
    struct adam_step a = *(struct adam_step *)arguments;
    for (size_t i = from; i < to; i++) {
        float gradient = a.gradients[i] + a.decay * a.parameters[i];
        a.first_moments[i] += a.rest1 * (gradient - a.first_moments[i]);
        a.second_moments[i] = a.beta2 * a.second_moments[i] + a.rest2 * gradient * gradient;
        float deviation = sqrtf(a.second_moments[i]) * a.bias_correction + a.epsilon;
        a.parameters[i] = a.shrink * a.parameters[i] - a.step_size * a.first_moments[i] / deviation;
    }
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
    LAUNCH(stream, run_adam_step, a, count, GRAIN);
}

struct adadelta_step {
    float *parameters;
    const float *gradients;
    float *squares, *changes;
    float lr, weight_decay, rho, rest, epsilon;
};

static void run_adadelta_step(void *arguments, size_t from, size_t to) {
    struct adadelta_step a = *(struct adadelta_step *)arguments;
    for (size_t i = from; i < to; i++) {
        float gradient = a.gradients[i] + a.weight_decay * a.parameters[i];
        a.squares[i] = a.rho * a.squares[i] + a.rest * gradient * gradient;
        float change = sqrtf(a.changes[i] + a.epsilon) / sqrtf(a.squares[i] + a.epsilon) * gradient;
        a.changes[i] = a.rho * a.changes[i] + a.rest * change * change;
        a.parameters[i] -= a.lr * change;
    }
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
    LAUNCH(stream, run_adadelta_step, a, count, GRAIN);
}
