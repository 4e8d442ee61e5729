// The kernels of the course behind a C interface: kernels.cu for a GPU, cpu/kernels.c for the CPU
// device. All pointers are device memory, all matrices row-major and dense. A call queues the work
// on the stream and returns; a launch that fails ends the program.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// Sums over samples, which softmax_cross_entropy computes. All three are doubles, so one collective
// can add them over processes.
struct stats {
    double loss, correct, samples;
};

// The number of partial sums, called lanes. Row r of a batch is added to lane r % STATS_LANES, so
// many threads can add at the same time, and every run gets the same bits.
enum { STATS_LANES = 1 << 10 };

// values[i] = uniform in [-bound, bound), number first + i of the seed's stream, for i < count.
void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream);

// Makes a batch out of a data set held as bytes: row r is sample s = order[first + r], or
// s = first + r where order is NULL. x[r, p] = (images[s, p] / 255 - mean) / deviation,
// y[r] = labels[s], for r < rows and p < pixels.
void gather_batch(const uint8_t *images, const uint8_t *labels, const uint32_t *order, size_t first,
                  int rows, int pixels, float mean, float deviation, float *x, uint8_t *y,
                  cudaStream_t stream);

// y[r, c] += bias[c], then y[r, c] = max(y[r, c], 0) if relu.
void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream);

// dy[i] = 0 wherever y[i] <= 0: the backward of y = relu(...).
void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream);

// sums[c] = sum over r of x[r, c]: the gradient of a bias.
void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream);

// The loss of sample r is -log softmax(logits[r])[labels[r]]. Adds three numbers to the lanes in
// stats: the losses, the number of correct rows, and the number of rows. A row is correct if its
// largest logit (the first of equal ones) is at its label. If dlogits is not NULL, the kernel also
// writes the gradient of scale * (sum of losses): (softmax(logits[r]) - one-hot(labels[r])) *
// scale.
void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, cudaStream_t stream);

// Adds the STATS_LANES partial sums in stats and writes the total to *sums. Overwrites stats.
void sum_stats(struct stats *stats, struct stats *sums, cudaStream_t stream);

// velocity = momentum * velocity + (gradients + weight_decay * parameters); parameters -= lr *
// velocity (as torch.optim.SGD).
void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream);

// Step number step, from 1 on, of Adam (Kingma and Ba, "Adam: a method for stochastic
// optimization", 2015). It treats each element by itself, so a part of the arrays gets the same
// bits as it would get in a call for the whole arrays:
//   m += (1 - beta1) * (g - m); v = beta2 * v + (1 - beta2) * g^2;
//   p -= lr * (m / (1 - beta1^step)) / (sqrt(v / (1 - beta2^step)) + epsilon)
// with beta1 0.9, beta2 0.999, epsilon 1e-8. Weight decay comes before that: g += weight_decay * p
// as in torch.optim.Adam, or, decoupled, p *= 1 - lr * weight_decay as in torch.optim.AdamW.
void adam_step(float *parameters, const float *gradients, float *first_moments,
               float *second_moments, size_t count, float lr, float weight_decay, int decoupled,
               long step, cudaStream_t stream);

// sums[i] += x[i].
void add_to(float *sums, const float *x, size_t count, cudaStream_t stream);

// sums[0] = sum of x[i]^2. The order of the additions depends on count alone, because replicas must
// get the same bits. sums has SQUARES_LANES doubles, and sums[j] first adds up the squares of the
// elements j, j + SQUARES_LANES, ...
enum { SQUARES_LANES = 1 << 18 };
void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream);

// x[i] *= min(1, max_norm / (sqrt(*sum_of_squares) + 1e-6)) (as torch.nn.utils.clip_grad_norm_).
void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream);

// bfloat16 is the upper half of a float. y[i] = x[i] to the nearest, ties to even; a NaN stays one.
void to_bfloat16(uint16_t *y, const float *x, size_t count, cudaStream_t stream);
void from_bfloat16(float *y, const uint16_t *x, size_t count, cudaStream_t stream);
