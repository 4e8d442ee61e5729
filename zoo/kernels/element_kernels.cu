// The kernels of the zoo that handle each element of their arrays alone, and the norm of gradients,
// for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/element_kernels.h"
}

__global__ static void add_relu_kernel(const float *a, const float *b, float *y, size_t count) {
    FOR_EACH (i, count) {
        float sum = a[i] + b[i];
        y[i] = sum < 0.f ? 0.f : sum; // NaN stays NaN
    }
}

void add_relu(const float *a, const float *b, float *y, size_t count, cudaStream_t stream) {
    LAUNCH(add_relu_kernel, count, stream, a, b, y, count);
}

__global__ static void drop_values_kernel(const float *x, float *y, size_t count, float rate,
                                          uint64_t seed, struct numbers numbers) {
    FOR_EACH (i, count)
        y[i] = rng_uniform(seed, rng_number(numbers, i)) < rate ? 0.f : x[i] / (1.f - rate);
}

void drop_values(const float *x, float *y, size_t count, float rate, uint64_t seed,
                 struct numbers numbers, cudaStream_t stream) {
    LAUNCH(drop_values_kernel, count, stream, x, y, count, rate, seed, numbers);
}

__global__ static void sum_squares_kernel(const float *x, size_t count, double *lanes) {
    FOR_EACH (lane, SQUARES_LANES) {
        double sum = 0;
        for (size_t i = lane; i < count; i += SQUARES_LANES)
            sum += (double)x[i] * x[i];
        lanes[lane] = sum;
    }
}

void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream) {
    LAUNCH(sum_squares_kernel, SQUARES_LANES, stream, x, count, sums);
    fold(sums, SQUARES_LANES, sums, 1, stream);
}

__global__ static void clip_to_norm_kernel(float *x, size_t count, const double *sum_of_squares,
                                           float max_norm) {
    float factor = (float)(max_norm / (sqrt(*sum_of_squares) + 1e-6));
    FOR_EACH (i, count)
        x[i] *= factor > 1.f ? 1.f : factor; // NaN stays NaN
}

void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream) {
    LAUNCH(clip_to_norm_kernel, count, stream, x, count, sum_of_squares, max_norm);
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
