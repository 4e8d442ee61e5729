// Arrays of values of either type, for the kernels of both devices. Include it after gpu_launch.h
// or cpu_launch.h.
#pragma once
#include "common/kernels/bfloat16.h"
#include "common/kernels/kernels.h"

// Element i of an array of this type, CUDA_R_32F or CUDA_R_16BF.
DEVICE_FUNCTION float value_at(const void *values, cudaDataType type, size_t i) {
    return type == CUDA_R_32F ? ((const float *)values)[i]
                              : float_of(((const uint16_t *)values)[i]);
}

DEVICE_FUNCTION void set_value(void *values, cudaDataType type, size_t i, float value) {
    if (type == CUDA_R_32F)
        ((float *)values)[i] = value;
    else
        ((uint16_t *)values)[i] = bfloat16_of(value);
}

// READS and WRITES for count values of this type.
#define READS_VALUES(array, type, count) USES(array, (count)*type_size(type), 0)
#define WRITES_VALUES(array, type, count) USES(array, (count)*type_size(type), 1)

// Calls a function with each type as a constant, so that the compiler vectorizes the loops of both.
#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define CALL_TYPED(function, type, ...)                                                            \
    ((type) == CUDA_R_32F ? function(CUDA_R_32F, __VA_ARGS__) : function(CUDA_R_16BF, __VA_ARGS__))

#ifdef __cplusplus // for a GPU
// N neighbouring values, which a thread reads or writes at a time, because a GPU needs many bytes
// under way. Arrays of 16 bytes or more begin at multiples of 16.
template <cudaDataType type, int N> struct alignas(N < 8 ? 2 * N : 16) values { uint16_t at[N]; };
template <int N> struct alignas(N < 4 ? 4 * N : 16) values<CUDA_R_32F, N> { float at[N]; };

static const float LOG2_E = 1.44269504f;
#endif
#ifdef __CUDACC__ // without nvcc, tests/unit/host_cuda.h has these functions
// Return 2^x and 1 / x, with errors of about 2^-22, and 0 in place of denormal numbers. exp and a
// division take several instructions each, and these take one.
__device__ static inline float power_of_2(float x) {
    asm("ex2.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}

__device__ static inline float reciprocal(float x) {
    asm("rcp.approx.ftz.f32 %0, %0;" : "+f"(x));
    return x;
}
#endif
