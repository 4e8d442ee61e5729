// How the .cu files launch kernels. Most kernels loop over their elements: each thread handles one
// element, then the next one a whole grid further. The result is therefore the same for any number
// of blocks. Each sum has a fixed order and no kernel uses atomics, so all runs give the same bits.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
extern "C" {
#include "common/base/error.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
}

// LAUNCH_SHARED gives each block some bytes of shared memory, and SHARED_FLOATS names them.
#ifndef LAUNCH
#define LAUNCH_SHARED(kernel, blocks, threads, bytes, stream, ...)                                 \
    do {                                                                                           \
        kernel<<<blocks, threads, bytes, stream>>>(__VA_ARGS__);                                   \
        CUDA_CHECK(cudaGetLastError());                                                            \
    } while (0)
#define SHARED_FLOATS(name) extern __shared__ __align__(16) float name[]
#define LAUNCH(kernel, threads, stream, ...)                                                       \
    LAUNCH_BLOCKS(kernel, BLOCKS(threads), 256, stream, __VA_ARGS__)
#define BLOCKS(threads) ((threads) / 256 < 2048 ? (unsigned)((threads) / 256) + 1 : 2048)
#endif
#define LAUNCH_BLOCKS(kernel, blocks, threads, stream, ...)                                        \
    LAUNCH_SHARED(kernel, blocks, threads, 0, stream, __VA_ARGS__)

#define FOR_EACH(i, count)                                                                         \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (count);                    \
         i += (size_t)gridDim.x * blockDim.x)

// common/kernels/formulas.h explains FORMULA. A GPU uses the arrays at their own addresses.
#define DEVICE_FUNCTION __device__ static inline
#define FORMULA(kernel)                                                                            \
    DEVICE_FUNCTION void kernel##_at(struct kernel a, size_t i);                                   \
    __global__ static void kernel##_kernel(struct kernel a, size_t count) {                        \
        FOR_EACH (i, count)                                                                        \
            kernel##_at(a, i);                                                                     \
    }                                                                                              \
    DEVICE_FUNCTION void kernel##_at(struct kernel a, size_t i)
#define LAUNCH_FORMULA(kernel, a, count, stream) LAUNCH(kernel##_kernel, count, stream, a, count)
#define USES(array, bytes, written) (array)
#define READS(array, count) (array)
#define WRITES(array, count) (array)
#define UPDATES(array, count) (array)
#define COMPUTES(instructions) ((void)0)

// sums[i] = lanes[i] + lanes[i + left] + ..., for i < left. There are at most MOST_FOLDED lanes.
enum { MOST_FOLDED = 1 << 18 };
void fold(const double *lanes, size_t count, double *sums, size_t left, cudaStream_t stream);

enum { WARP = 32, BLOCK_THREADS = 256 };
static const unsigned ALL_THREADS = ~0u; // of a warp

// Returns the sum of the values of a warp's threads to all of them, always in the same order.
template <class T> __device__ static inline T sum_of_warp(T value) {
    for (int distance = WARP / 2; distance > 0; distance /= 2)
        value += __shfl_xor_sync(ALL_THREADS, value, distance);
    return value;
}
