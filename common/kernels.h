// The kernels, functions that run on the device: common/kernels.cu for a GPU, cpu_device/kernels.c
// for the CPU device. All pointers are device memory, and all matrices are row-major and dense. A
// call queues the kernel on the stream and returns. If the launch fails, it ends the program.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// Sums over all labels of all samples, computed by softmax_cross_entropy. All three are doubles, so
// one collective can add them over processes.
struct stats {
    double loss, correct, samples;
};

// The number of partial sums, called lanes. Row r of a batch is added to lane r % STATS_LANES, so
// many threads can add at the same time, and every run gets the same bits.
enum { STATS_LANES = 1 << 10 };

// values[i] = random number first + i of this seed, uniform in [-bound, bound), for i < count.
void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream);

// Makes a batch from a data set on the device. Row r of the batch is sample s = order[first + r],
// or s = first + r if order is NULL. For r < rows, i < inputs and t < targets:
//   x[r, i] = (values[s, i] / 255 - mean) / deviation; y[r, t] = labels[s, t]
// with the mean and the deviation of the channel of value i.
struct dataset;
void gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                  float *x, uint8_t *y, cudaStream_t stream);

// y[r, c] += bias[c], then y[r, c] = max(y[r, c], 0) if relu.
void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream);

// dy[i] = 0 if y[i] <= 0. This is the backward pass of y = relu(...).
void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream);

// y[i] = 0 if random number first + i of the seed is below rate, else x[i] / (1 - rate).
void drop_values(const float *x, float *y, size_t count, float rate, uint64_t seed, uint64_t first,
                 cudaStream_t stream);

// sums[c] = sum over r of x[r, c]. This is the gradient of a bias.
void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream);

// The loss of sample r is -log softmax(logits[r])[labels[r]]. Adds three numbers to the lanes in
// stats: the losses, the number of correct rows, and the number of rows. A row is correct if its
// largest logit (the first of equal ones) is at its label. If dlogits is not NULL, it also gets the
// gradient of scale * (sum of losses): (softmax(logits[r]) - one-hot(labels[r])) * scale.
void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, cudaStream_t stream);

// Adds the STATS_LANES partial sums in stats and writes the total to *sums. Overwrites stats.
void sum_stats(struct stats *stats, struct stats *sums, cudaStream_t stream);

// One step of SGD with momentum, as in torch.optim.SGD:
//   velocity = momentum * velocity + (gradients + weight_decay * parameters)
//   parameters -= lr * velocity
void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream);

// One step of Adam (Kingma and Ba, "Adam: a method for stochastic optimization", 2015). step counts
// from 1. No element depends on another, so a call for a part of the arrays gives the same bits as
// a call for the whole arrays:
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2;
//   p -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
// with beta1 0.9, beta2 0.999 and epsilon 1e-8. Weight decay comes first: g += weight_decay * p, as
// in torch.optim.Adam, or, if decoupled is 1, p *= 1 - lr * weight_decay, as in torch.optim.AdamW.
void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               long step, cudaStream_t stream);

// sums[i] += x[i].
void add_to(float *sums, const float *x, size_t count, cudaStream_t stream);

// sums[0] = sum of x[i]^2. The order of the additions depends only on count, because replicas must
// get the same bits. sums has SQUARES_LANES doubles: sums[j] first adds the squares of the elements
// j, j + SQUARES_LANES, ...
enum { SQUARES_LANES = 1 << 18 };
void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream);

// x[i] *= min(1, max_norm / (sqrt(*sum_of_squares) + 1e-6)), as torch.nn.utils.clip_grad_norm_.
void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream);

// y[i] = x[i]. A bfloat16 is the upper half of a float. to_bfloat16 rounds to nearest, with ties to
// even, and keeps NaN.
void to_bfloat16(uint16_t *y, const float *x, size_t count, cudaStream_t stream);
void from_bfloat16(float *y, const uint16_t *x, size_t count, cudaStream_t stream);
