// Lets a C++ compiler build common/kernels.cu for the host: included before it, this stands in for
// what nvcc knows by itself. A launch runs a small grid thread by thread, the last one first, so
// that loops which skip or repeat elements, or count on an order, give wrong results. Races stay
// unseen.
#pragma once
#include <math.h>

#define __global__

struct host_dim {
    unsigned x;
};
static const struct host_dim gridDim = {2}, blockDim = {3};
static struct host_dim blockIdx, threadIdx;

static inline double atomicAdd(double *sum, double value) {
    double before = *sum;
    *sum += value;
    return before;
}

#define LAUNCH(kernel, threads, stream, ...)                                                       \
    do {                                                                                           \
        (void)(threads), (void)(stream);                                                           \
        for (unsigned thread_ = gridDim.x * blockDim.x; thread_-- > 0;) {                          \
            blockIdx.x = thread_ / blockDim.x;                                                     \
            threadIdx.x = thread_ % blockDim.x;                                                    \
            kernel(__VA_ARGS__);                                                                   \
        }                                                                                          \
    } while (0)

// With names of their own these launchers can be linked beside the device's.
#define fill_uniform cu_fill_uniform
#define gather_batch cu_gather_batch
#define add_bias cu_add_bias
#define relu_backward cu_relu_backward
#define sum_rows cu_sum_rows
#define softmax_cross_entropy cu_softmax_cross_entropy
#define sgd_step cu_sgd_step
#define adam_step cu_adam_step
#define add_to cu_add_to
#define sum_squares cu_sum_squares
#define clip_to_norm cu_clip_to_norm
#define to_bfloat16 cu_to_bfloat16
#define from_bfloat16 cu_from_bfloat16
