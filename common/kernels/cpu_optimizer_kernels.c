// The kernels of the optimizers for the CPU device.
#include "common/kernels/cpu_launch.h"

struct sgd_step {
    float *parameters;
    const float *gradients;
    float *velocity;
    size_t count;
    float lr, momentum, weight_decay;
};

ALSO_AVX2 static void run_sgd_step(void *arguments, size_t from, size_t to) {
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
