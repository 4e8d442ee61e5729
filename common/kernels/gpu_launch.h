// How the .cu files launch kernels. Most kernels loop over their elements: each thread handles one
// element, then the next one a whole grid further. The result is therefore the same for any number
// of blocks. Each sum has a fixed order and no kernel uses atomics, so all runs give the same bits.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
extern "C" {
#include "common/device/device.h"
#include "common/kernels/kernels.h"
}

#ifndef LAUNCH
#define LAUNCH_BLOCKS(kernel, blocks, threads, stream, ...)                                        \
    do {                                                                                           \
        kernel<<<blocks, threads, 0, stream>>>(__VA_ARGS__);                                       \
        CUDA_CHECK(cudaGetLastError());                                                            \
    } while (0)
#define LAUNCH(kernel, threads, stream, ...)                                                       \
    LAUNCH_BLOCKS(kernel, BLOCKS(threads), 256, stream, __VA_ARGS__)
#define BLOCKS(threads) ((threads) / 256 < 2048 ? (unsigned)((threads) / 256) + 1 : 2048)
#endif

#define FOR_EACH(i, count)                                                                         \
    for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < (count);                    \
         i += (size_t)gridDim.x * blockDim.x)

// Returns the sum of the threads' values to all threads of a block of BLOCK_THREADS, or the largest
// value. The order of the additions is always the same.
enum { BLOCK_THREADS = 256 };
__device__ static inline float over_block(float value, int largest) {
    __shared__ float values[BLOCK_THREADS];
    values[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = BLOCK_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = values[threadIdx.x + half], own = values[threadIdx.x];
            values[threadIdx.x] = !largest ? own + other : other > own ? other : own;
        }
        __syncthreads();
    }
    float result = values[0];
    __syncthreads(); // the next call overwrites values
    return result;
}
