// The kernels of values for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/norm_kernels.h"
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

// A block computes a row, and then the next one a whole grid further.
#define FORMULA_OF_ROWS(kernel)                                                                    \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION void kernel##_at(const struct rows &a, size_t i, size_t col);                  \
    template <cudaDataType type> __global__ static void kernel##_kernel(struct rows a) {           \
        for (size_t row = blockIdx.x; row < a.rows; row += gridDim.x)                              \
            for (size_t col = threadIdx.x; col < a.cols; col += blockDim.x)                        \
                kernel##_at<type>(a, row * a.cols + col, col);                                     \
    }                                                                                              \
    template <cudaDataType type>                                                                   \
    DEVICE_FUNCTION void kernel##_at(const struct rows &a, size_t i, size_t col)
#define LAUNCH_ROWS(kernel, a, stream)                                                             \
    LAUNCH_TYPED(kernel##_kernel, (a).type, (a).rows < 1 << 14 ? (a).rows + 1 : 1 << 14,           \
                 dim3(BLOCK_THREADS), stream, a)

struct columns;
template <cudaDataType type>
__global__ static void columns_kernel(struct columns a, unsigned slices);
#define LAUNCH_COLUMNS(a, slices, stream)                                                          \
    LAUNCH_TYPED(columns_kernel, (a).type, ((a).cols / BLOCK_THREADS + 1) * (slices),              \
                 dim3(BLOCK_THREADS), stream, a, slices)

#include "zoo/kernels/value_formulas.h"

// A block adds up BLOCK_THREADS columns of a slice of the rows.
template <cudaDataType type>
__global__ static void columns_kernel(struct columns a, unsigned slices) {
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
            value = gelu_gradient(value, value_at(a.dy, type, i));
        if (a.y)
            set_value(a.y, a.bias ? type : CUDA_R_16BF, i, value);
        sum += value;
    }
    a.sums[slice * a.cols + col] = sum;
}

enum { WARPS = BLOCK_THREADS / WARP };

// Replaces the values of a block's threads by their sums. Threads have the numbers (lane, warp).
__device__ static inline void sum_over_block(float &a, float &b) {
    __shared__ float sums[2][WARPS];
    a = sum_of_warp(a);
    b = sum_of_warp(b);
    if (threadIdx.x == 0) {
        sums[0][threadIdx.y] = a;
        sums[1][threadIdx.y] = b;
    }
    __syncthreads();
    a = b = 0.f;
    for (int warp = 0; warp < WARPS; warp++) {
        a += sums[0][warp];
        b += sums[1][warp];
    }
    __syncthreads(); // the next call overwrites the sums
}

// A warp computes a row.
template <cudaDataType type>
__global__ static void layer_norm_kernel(const float *__restrict__ x, void *y,
                                         const void *parameters, cudaDataType parameter_type,
                                         float *statistics, size_t rows, size_t cols) {
    size_t row = blockIdx.x * (size_t)WARPS + threadIdx.y, first = row * cols;
    float sum = 0.f, squares = 0.f;
    if (row >= rows)
        return;
    for (size_t col = threadIdx.x; col < cols; col += WARP)
        sum += x[first + col];
    float mean = sum_of_warp(sum) / cols;
    for (size_t col = threadIdx.x; col < cols; col += WARP)
        squares += (x[first + col] - mean) * (x[first + col] - mean);
    float inverse = 1 / sqrtf(sum_of_warp(squares) / cols + 1e-5f);
    for (size_t col = threadIdx.x; col < cols; col += WARP) {
        float scale = value_at(parameters, parameter_type, col);
        float shift = value_at(parameters, parameter_type, cols + col);
        set_value(y, type, first + col, (x[first + col] - mean) * inverse * scale + shift);
    }
    if (threadIdx.x == 0) {
        statistics[2 * row] = mean;
        statistics[2 * row + 1] = inverse;
    }
}

void layer_norm(const float *x, void *y, cudaDataType type, const void *parameters,
                cudaDataType parameter_type, float *statistics, int rows, int cols,
                cudaStream_t stream) {
    LAUNCH_TYPED(layer_norm_kernel, type, rows / WARPS + 1, dim3(WARP, WARPS), stream, x, y,
                 parameters, parameter_type, statistics, rows, cols);
}

// A block computes the rows of a slice, one after the other. With d = dy * scale, the gradient of x
// is (d - mean of d - normalised * mean of (d * normalised)) / deviation. Each thread has columns
// of its own.
template <cudaDataType type>
__global__ static void
layer_norm_backward_kernel(const float *x, const void *dy, const float *other, float *dx,
                           const void *parameters, cudaDataType parameter_type,
                           const float *statistics, float *sums, size_t rows, size_t cols) {
    __shared__ float dscale[MOST_NORM_CHANNELS], dshift[MOST_NORM_CHANNELS];
    size_t slice = blockIdx.x, slices = gridDim.x, thread = threadIdx.y * WARP + threadIdx.x;
    for (size_t col = thread; col < cols; col += BLOCK_THREADS)
        dscale[col] = dshift[col] = 0.f;
    for (size_t row = rows * slice / slices; row < rows * (slice + 1) / slices; row++) {
        size_t first = row * cols;
        float mean = statistics[2 * row], inverse = statistics[2 * row + 1];
        float sum = 0.f, products = 0.f;
        for (size_t col = thread; col < cols; col += BLOCK_THREADS) {
            float gradient = value_at(dy, type, first + col);
            float normalised = (x[first + col] - mean) * inverse;
            float d = gradient * value_at(parameters, parameter_type, col);
            sum += d;
            products += d * normalised;
            dscale[col] += gradient * normalised;
            dshift[col] += gradient;
        }
        if (!dx)
            continue;
        sum_over_block(sum, products);
        float mean_d = sum / cols, mean_product = products / cols;
        for (size_t col = thread; col < cols; col += BLOCK_THREADS) {
            float d = value_at(dy, type, first + col) * value_at(parameters, parameter_type, col);
            float normalised = (x[first + col] - mean) * inverse;
            float gradient = (d - mean_d - normalised * mean_product) * inverse;
            dx[first + col] = other ? other[first + col] + gradient : gradient;
        }
    }
    for (size_t col = thread; col < cols; col += BLOCK_THREADS) {
        sums[2 * slice * cols + col] = dscale[col];
        sums[(2 * slice + 1) * cols + col] = dshift[col];
    }
}

void layer_norm_backward(const float *x, const void *dy, cudaDataType type, const float *other,
                         float *dx, const void *parameters, cudaDataType parameter_type,
                         const float *statistics, float *gradients, float *scratch, int rows,
                         int cols, cudaStream_t stream) {
    int slices = column_slices(rows);
    LAUNCH_TYPED(layer_norm_backward_kernel, type, slices, dim3(WARP, WARPS), stream, x, dy, other,
                 dx, parameters, parameter_type, statistics, scratch, rows, cols);
    sum_rows(scratch, gradients, slices, 2 * cols, stream);
}
