// The kernels of the optimizers for a GPU.
#include "common/kernels/gpu_launch.h"

__global__ static void sgd_step_kernel(float *parameters, const float *gradients, float *velocity,
                                       size_t count, float lr, float momentum, float weight_decay) {
    FOR_EACH (i, count) {
        float decay = weight_decay == 0.f ? -0.f : weight_decay * parameters[i]; // g + -0 is g
        velocity[i] = momentum * velocity[i] + (gradients[i] + decay);
        parameters[i] -= lr * velocity[i];
    }
}

void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream) {
    LAUNCH(sgd_step_kernel, count, stream, parameters, gradients, velocity, count, lr, momentum,
           weight_decay);
}
