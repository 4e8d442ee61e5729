// The kernels of the optimizers for the CPU device.
#include "common/kernels/cpu_launch.h"
#include <math.h>

struct sgd_step {
    float *parameters;
    const float *gradients;
    float *velocity;
    size_t count;
    float lr, momentum, weight_decay;
};

static void run_sgd_step(void *arguments, size_t from, size_t to) {
    struct sgd_step a = *(struct sgd_step *)arguments;
    for (size_t i = from; i < to; i++) {
        // Adding -0 changes no gradient; adding +0 would turn -0 into +0.
        float decay = a.weight_decay == 0.f ? -0.f : a.weight_decay * a.parameters[i];
        a.velocity[i] = a.momentum * a.velocity[i] + (a.gradients[i] + decay);
        a.parameters[i] -= a.lr * a.velocity[i];
    }
}

void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream) {
    struct sgd_step a = {UPDATES(parameters, count),
                         READS(gradients, count),
                         UPDATES(velocity, count),
                         count,
                         lr,
                         momentum,
                         weight_decay};
    LAUNCH(stream, run_sgd_step, a, count, GRAIN);
}

static void run_nesterov_step(void *arguments, size_t from, size_t to) {
    struct sgd_step a = *(struct sgd_step *)arguments;
    for (size_t i = from; i < to; i++) {
        float gradient = a.gradients[i] + a.weight_decay * a.parameters[i];
        a.velocity[i] = a.momentum * a.velocity[i] + gradient;
        a.parameters[i] -= a.lr * (gradient + a.momentum * a.velocity[i]);
    }
}

void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream) {
    struct sgd_step a = {UPDATES(parameters, count),
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
