// Kernels of dropout, of optimizers and of large models, as common/kernels/kernels.h describes
// them.
#pragma once
#include "common/kernels/kernels.h"

// Returns a nearly normal number with mean 0 and deviation 1: the sum of four numbers that are
// uniform in 0, ..., 65535, minus its mean, divided by its deviation, 65536 / sqrt(3).
HOST_DEVICE_FUNCTION float rng_normal(uint64_t seed, uint64_t index) {
    uint64_t bits = rng_bits(seed, index);
    int sum = (int)((bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48));
    return (float)(sum - 2 * 65535) * 2.6428996e-5f;
}

// values[i] = a nearly normal random number first + i of this seed, with mean 0 and this deviation:
// the sum of the four 16-bit parts of the generator's number. Unlike a formula with logarithms, it
// has the same bits on each device. It is at most 3.5 deviations from 0.
void fill_normal(float *values, size_t count, float deviation, uint64_t seed, uint64_t first,
                 cudaStream_t stream);

// y[i] = max(a[i] + b[i], 0).
void add_relu(const float *a, const float *b, float *y, size_t count, cudaStream_t stream);

// The random numbers that belong to the values of an array: value i has number first + i. If the
// array has some columns of a larger one, of rows of pitch values, width of them, the numbers are
// those of the same values there: first + (begin + i) / width * pitch + (begin + i) % width.
struct numbers {
    uint64_t first;
    uint64_t begin, width, pitch; // width 0: the array is not a part of a larger one
};

HOST_DEVICE_FUNCTION uint64_t rng_number(struct numbers n, uint64_t i) {
    uint64_t at = n.begin + i;
    return n.first + at + (n.width ? at / n.width * (n.pitch - n.width) : 0);
}

// y[i] = 0 if random number rng_number(numbers, i) of the seed is below rate, else
// x[i] / (1 - rate). x and y have this type.
void drop_values(const void *x, void *y, cudaDataType type, size_t count, float rate, uint64_t seed,
                 struct numbers numbers, cudaStream_t stream);

// The same with Nesterov's momentum, as in torch.optim.SGD with nesterov=True. The update looks
// ahead:
//   velocity = momentum * velocity + g; parameters -= lr * (g + momentum * velocity)
// where g = gradients + weight_decay * parameters.
void nesterov_step(float *parameters, const float *gradients, float *velocity, size_t count,
                   float lr, float momentum, float weight_decay, cudaStream_t stream);

// One step of Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015). step counts
// from 1. No element depends on another, so a call for a part of the arrays gives the same bits as
// a call for the whole arrays:
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2;
//   p -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
// beta1 and beta2 are below 1. Weight decay comes first: g += weight_decay * p, as in
// torch.optim.Adam, or, if decoupled is 1, p *= 1 - lr * weight_decay, as in torch.optim.AdamW.
void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               double beta1, double beta2, float epsilon, long step, cudaStream_t stream);

// One step of Adadelta (Zeiler, "ADADELTA: an adaptive learning rate method", 2012), as in
// torch.optim.Adadelta. It divides a gradient by the size of earlier gradients, and multiplies it
// by the size of earlier changes:
//   g = gradients + weight_decay * p; squares = rho * squares + (1 - rho) * g^2;
//   change = g * sqrt(changes + epsilon) / sqrt(squares + epsilon);
//   changes = rho * changes + (1 - rho) * change^2; p -= lr * change
void adadelta_step(float *parameters, const float *gradients, float *squares, float *changes,
                   size_t count, float lr, float weight_decay, double rho, float epsilon,
                   cudaStream_t stream);

// sums[0] = sum of x[i]^2. The order of the additions depends only on count, because replicas must
// get the same bits. sums has SQUARES_LANES doubles: sums[j] first adds the squares of the elements
// j, j + SQUARES_LANES, ...
enum { SQUARES_LANES = 1 << 18 };
void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream);

// x[i] *= min(1, max_norm / (sqrt(*sum_of_squares) + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream);
