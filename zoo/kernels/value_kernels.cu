// The kernels of values for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/value_kernels.h"
}

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

// A block computes a row, and then the next one a whole grid further. A thread loads the inputs of
// AHEAD columns before it stores a result, because it would wait for each one otherwise.
enum { AHEAD = 4 };
#define FORMULA_OF_ROWS(kernel, y_type)                                                            \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION float kernel##_at(const struct rows &a, size_t i, size_t col);                 \
    template <cudaDataType type> __global__ static void kernel##_kernel(struct rows a) {           \
        for (size_t row = blockIdx.x; row < a.rows; row += gridDim.x)                              \
            for (size_t col = threadIdx.x; col < a.cols; col += AHEAD * BLOCK_THREADS)             \
                compute_columns(a, y_type, row *a.cols, col, kernel##_at<type>);                   \
    }                                                                                              \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION float kernel##_at(const struct rows &a, size_t i, size_t col)
#define LAUNCH_ROWS(kernel, a, stream)                                                             \
    LAUNCH_TYPED(kernel##_kernel, (a).type, (a).rows < 1 << 14 ? (a).rows + 1 : 1 << 14,           \
                 dim3(BLOCK_THREADS), stream, a)
#define LAUNCH_COLUMNS(a, slices, stream)                                                          \
    LAUNCH_TYPED(columns_kernel, (a).type,                                                         \
                 ((a).cols + BLOCK_THREADS - 1) / BLOCK_THREADS * (slices), dim3(BLOCK_THREADS),   \
                 stream, a, slices)

struct rows;
template <class Formula>
DEVICE_FUNCTION void compute_columns(const struct rows &a, cudaDataType y_type, size_t first,
                                     size_t col, Formula *formula);
template <cudaDataType type> __global__ static void columns_kernel(struct rows a, unsigned slices);

#include "zoo/kernels/value_formulas.h"

template <class Formula>
DEVICE_FUNCTION void compute_columns(const struct rows &a, cudaDataType y_type, size_t first,
                                     size_t col, Formula *formula) {
    float results[AHEAD];
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (col + i * BLOCK_THREADS < a.cols)
            results[i] = formula(a, first + col + i * BLOCK_THREADS, col + i * BLOCK_THREADS);
#pragma unroll
    for (int i = 0; i < AHEAD; i++)
        if (col + i * BLOCK_THREADS < a.cols)
            set_value(a.y, y_type, first + col + i * BLOCK_THREADS, results[i]);
}

// Returns what columns_kernel adds up.
template <cudaDataType type>
__device__ static inline float summand(const struct rows &a, size_t i, float bias) {
    float value = value_at(a.x, type, i) + bias;
    return a.bias ? gelu_gradient(value, value_at(a.other, type, i)) : value;
}

// A block adds up BLOCK_THREADS columns of a slice of the rows, AHEAD rows at a time.
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
