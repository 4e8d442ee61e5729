// The kernels of values for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/value_kernels.h"
}
#include "zoo/kernels/values.h"

// With the fast functions, whose error is about 2^-21, GELU takes half of the instructions.
__device__ static inline float sigmoid(float x) {
    return reciprocal(1.f + power_of_2(-LOG2_E * x));
}

// Launches the version of a kernel for this type.
#define LAUNCH_TYPED(kernel, type, ...)                                                            \
    do {                                                                                           \
        if ((type) == CUDA_R_32F)                                                                  \
            LAUNCH_BLOCKS(kernel<CUDA_R_32F>, __VA_ARGS__);                                        \
        else                                                                                       \
            LAUNCH_BLOCKS(kernel<CUDA_R_16BF>, __VA_ARGS__);                                       \
    } while (0)

// A thread computes N values at a time: 8, which are 16 bytes in bfloat16, where their addresses
// allow it.
#define FORMULA_OF_ROWS(kernel, y_type)                                                            \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION float kernel##_at(const struct rows &a, size_t i, size_t col);                 \
    template <cudaDataType type, int N> __global__ static void kernel##_kernel(struct rows a) {    \
        compute_values<type, y_type, N>(a, kernel##_at<type>);                                     \
    }                                                                                              \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION float kernel##_at(const struct rows &a, size_t i, size_t col)
#define LAUNCH_ROWS(kernel, a, stream)                                                             \
    do {                                                                                           \
        if (are_aligned(a))                                                                        \
            LAUNCH_VALUES(kernel, 8, a, stream);                                                   \
        else                                                                                       \
            LAUNCH_VALUES(kernel, 1, a, stream);                                                   \
    } while (0)
#define LAUNCH_VALUES(kernel, N, a, stream)                                                        \
    do {                                                                                           \
        if ((a).type == CUDA_R_32F)                                                                \
            LAUNCH((kernel##_kernel<CUDA_R_32F, N>), (a).rows *(a).cols / N, stream, a);           \
        else                                                                                       \
            LAUNCH((kernel##_kernel<CUDA_R_16BF, N>), (a).rows *(a).cols / N, stream, a);          \
    } while (0)
#define LAUNCH_COLUMNS(a, slices, stream)                                                          \
    LAUNCH_TYPED(columns_kernel, (a).type,                                                         \
                 ((a).cols + BLOCK_THREADS - 1) / BLOCK_THREADS * (slices), dim3(BLOCK_THREADS),   \
                 stream, a, slices)

struct rows;
static int are_aligned(const struct rows &a);
template <cudaDataType type, cudaDataType y_type, int N, class Formula>
DEVICE_FUNCTION void compute_values(const struct rows &a, Formula *formula);
template <cudaDataType type> __global__ static void columns_kernel(struct rows a, unsigned slices);

#include "zoo/kernels/value_formulas.h"

// Returns 1 if each 8 values of a row begin at a multiple of 16 bytes.
static int are_aligned(const struct rows &a) {
    return a.cols % 8 == 0 &&
           ((uintptr_t)a.x | (uintptr_t)a.bias | (uintptr_t)a.other | (uintptr_t)a.y) % 16 == 0;
}

// The formula sees arrays of N values, and one column for each. Only add_values has others.
template <cudaDataType type, cudaDataType y_type, int N, class Formula>
DEVICE_FUNCTION void compute_values(const struct rows &a, Formula *formula) {
    unsigned units = a.cols / N; // of a row
    FOR_EACH (i, a.rows * units) {
        values<type, N> x = ((const values<type, N> *)a.x)[i], bias = {};
        values<CUDA_R_32F, N> other = {};
        values<y_type, N> y, &to = ((values<y_type, N> *)a.y)[i];
        if (a.bias)
            bias = ((const values<type, N> *)a.bias)[(unsigned)i % units];
        if (a.other)
            other = ((const values<CUDA_R_32F, N> *)a.other)[i];
        struct rows unit = {&x, &bias, &other, &y, type, 1, N, NULL};
#pragma unroll
        for (int k = 0; k < N; k++)
            set_value(unit.y, y_type, k, formula(unit, k, k));
        to = y;
    }
}

// Returns what columns_kernel adds up.
template <cudaDataType type>
__device__ static inline float summand(const struct rows &a, size_t i, float bias) {
    float value = value_at(a.x, type, i) + bias;
    return a.bias ? gelu_gradient(value, value_at(a.other, type, i)) : value;
}

// A block adds up BLOCK_THREADS columns of a slice of the rows, AHEAD rows at a time, because a
// thread would wait for each one otherwise.
enum { AHEAD = 4 };
template <cudaDataType type> __global__ static void columns_kernel(struct rows a, unsigned slices) {
    size_t slice = blockIdx.x % slices, end = a.rows * (slice + 1) / slices;
    size_t col = blockIdx.x / slices * (size_t)BLOCK_THREADS + threadIdx.x;
    float sum = 0.f;
    if (col >= a.cols)
        return;
    float bias = a.bias ? value_at(a.bias, type, col) : 0.f;
    for (size_t row = a.rows * slice / slices; row < end; row += AHEAD) {
        size_t first = row * a.cols + col;
        unsigned left = end - row;
        float values[AHEAD] = {};
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (i < left)
                values[i] = summand<type>(a, first + i * a.cols, bias);
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++) {
            if (a.y && i < left)
                set_value(a.y, a.bias ? type : CUDA_R_16BF, first + i * a.cols, values[i]);
            sum += values[i];
        }
    }
    a.sums[slice * a.cols + col] = sum;
}
