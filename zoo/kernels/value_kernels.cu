// The kernels of values for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/value_kernels.h"
}

// With the fast functions, whose error is about 2^-21, GELU takes half of the instructions.
__device__ static inline float sigmoid(float x) {
    return __fdividef(1.f, 1.f + __expf(-x));
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
    LAUNCH_TYPED(columns_kernel, (a).type, ((a).cols / BLOCK_THREADS + 1) * (slices),              \
                 dim3(BLOCK_THREADS), stream, a, slices)

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

// A block adds up BLOCK_THREADS columns of a slice of the rows.
template <cudaDataType type> __global__ static void columns_kernel(struct rows a, unsigned slices) {
    size_t slice = blockIdx.x % slices;
    size_t col = blockIdx.x / slices * (size_t)BLOCK_THREADS + threadIdx.x;
    float sum = 0.f;
    if (col >= a.cols)
        return;
    float bias = a.bias ? value_at(a.bias, type, col) : 0.f;
#pragma unroll 4
    for (size_t row = a.rows * slice / slices; row < a.rows * (slice + 1) / slices; row++) {
        size_t i = row * a.cols + col;
        float value = value_at(a.x, type, i) + bias;
        if (a.bias)
            value = gelu_gradient(value, value_at(a.other, type, i));
        if (a.y)
            set_value(a.y, a.bias ? type : CUDA_R_16BF, i, value);
        sum += value;
    }
    a.sums[slice * a.cols + col] = sum;
}
