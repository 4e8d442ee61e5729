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

__global__ static void nesterov_step_kernel(float *parameters, const float *gradients,
                                            float *velocity, size_t count, float lr, float momentum,
                                            float weight_decay) {
    FOR_EACH (i, count) {
        float gradient = gradients[i] + weight_decay * parameters[i];
        velocity[i] = momentum * velocity[i] + gradient;
        parameters[i] -= lr * (gradient + momentum * velocity[i]);
    }
}

void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream) {
    LAUNCH(nesterov_step_kernel, count, stream, parameters, gradients, velocity, count, lr,
           momentum, weight_decay);
}

__global__ static void adam_step_kernel(float *parameters, const float *gradients,
                                        float *first_moments, float *second_moments, size_t count,
                                        float decay, float shrink, float rest1, float beta2,
                                        float rest2, float epsilon, float step_size,
                                        float bias_correction) {
    FOR_EACH (i, count) {
        float gradient = gradients[i] + decay * parameters[i];
        first_moments[i] += rest1 * (gradient - first_moments[i]);
        second_moments[i] = beta2 * second_moments[i] + rest2 * gradient * gradient;
        float deviation = sqrtf(second_moments[i]) * bias_correction + epsilon;
        parameters[i] = shrink * parameters[i] - step_size * first_moments[i] / deviation;
    }
}

void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               double beta1, double beta2, float epsilon, long step, cudaStream_t stream) {
    LAUNCH(adam_step_kernel, count, stream, parameters, gradients, first_moments, second_moments,
           count, decoupled ? 0.f : weight_decay,
           decoupled ? (float)(1 - (double)lr * weight_decay) : 1.f, (float)(1 - beta1),
           (float)beta2, (float)(1 - beta2), epsilon, (float)(lr / (1 - pow(beta1, step))),
           (float)(1 / sqrt(1 - pow(beta2, step))));
}

__global__ static void adadelta_step_kernel(float *parameters, const float *gradients,
                                            float *squares, float *changes, size_t count, float lr,
                                            float weight_decay, float rho, float rest,
                                            float epsilon) {
    FOR_EACH (i, count) {
        float gradient = gradients[i] + weight_decay * parameters[i];
        squares[i] = rho * squares[i] + rest * gradient * gradient;
        float change = sqrtf(changes[i] + epsilon) / sqrtf(squares[i] + epsilon) * gradient;
        changes[i] = rho * changes[i] + rest * change * change;
        parameters[i] -= lr * change;
    }
}

void adadelta_step(float *parameters, const float *gradients, float *squares, float *changes,
                   size_t count, float lr, float weight_decay, double rho, float epsilon,
                   cudaStream_t stream) {
    LAUNCH(adadelta_step_kernel, count, stream, parameters, gradients, squares, changes, count, lr,
           weight_decay, (float)rho, (float)(1 - rho), epsilon);
}
