// The kernels, functions that run on the device: those of step 1 (zoo/kernels/ has others). The .cu
// files of this folder are for a GPU, the files cpu_*.c for the CPU device. All pointers are device
// memory, and all matrices are row-major and dense. A call queues the kernel on the stream and
// returns. If the launch fails, it ends the program. So does a call of a kernel that divides the
// indices of its elements, such as max_pool, with 2^31 or more elements.
#pragma once
#include "common/base/rng.h"
#include "common/data/data.h"
#include <cublas_v2.h> // cudaDataType
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

// Returns the bytes of an element: 4, or 2 for CUDA_R_16BF.
static inline size_t type_size(cudaDataType type) {
    return type == CUDA_R_16BF ? sizeof(uint16_t) : sizeof(float);
}

// values[i] = random number first + i of this seed, uniform in [-bound, bound), for i < count.
void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream);

// values[i] = value for i < count.
void fill(float *values, size_t count, float value, cudaStream_t stream);

// Makes a batch from a data set on the device. Row r of the batch is sample s = order[first + r],
// or s = first + r if order is NULL. For r < rows, i < inputs and t < targets:
//   x[r, i] = (values[s, i] / 255 - mean) / deviation; y[r, t] = labels[s, t]
// with the mean and the deviation of the channel of value i. x or y may be NULL.
void gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                  float *x, uint8_t *y, cudaStream_t stream);

// y[r, c] += bias[c], then y[r, c] = max(y[r, c], 0) if relu.
void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream);

// sums[i] += x[i].
void add_to(float *sums, const float *x, size_t count, cudaStream_t stream);

// dy[i] = 0 if y[i] <= 0. This is the backward pass of y = relu(...).
void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream);

// sums[c] = sum over r of x[r, c]. This is the gradient of a bias.
void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream);

// The loss of sample r is -log softmax(logits[r])[labels[r]]. Adds three numbers to the lanes in
// stats: the losses, the number of correct rows, and the number of rows. A row is correct if its
// largest logit (the first of equal ones) is at its label. If dlogits is not NULL, it also gets the
// gradient of scale * (sum of losses): (softmax(logits[r]) - one-hot(labels[r])) * scale.
// smoothing, from 0 to 1, replaces that share of a loss by the mean loss of all labels, as
// label_smoothing of torch.nn.CrossEntropyLoss does.
void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, float smoothing,
                           cudaStream_t stream);

// Adds the STATS_LANES partial sums in stats and writes the total to *sums.
void sum_stats(const struct stats *stats, struct stats *sums, cudaStream_t stream);

// One step of SGD with momentum, as in torch.optim.SGD:
//   velocity = momentum * velocity + (gradients + weight_decay * parameters)
//   parameters -= lr * velocity
void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, float weight_decay, cudaStream_t stream);

// y[i] = x[i] (common/kernels/bfloat16.h).
void to_bfloat16(uint16_t *y, const float *x, size_t count, cudaStream_t stream);
void from_bfloat16(float *y, const uint16_t *x, size_t count, cudaStream_t stream);
