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

struct rows;
static int are_aligned(const struct rows &a);
template <cudaDataType type, cudaDataType y_type, int N, class Formula>
DEVICE_FUNCTION void compute_values(const struct rows &a, Formula *formula);

#include "zoo/kernels/value_formulas.h"

// Returns 1 if each 8 values of a row begin at a multiple of 16 bytes.
static int are_aligned(const struct rows &a) {
    return a.cols % 8 == 0 && ((uintptr_t)a.x | (uintptr_t)a.bias | (uintptr_t)a.other |
                               (uintptr_t)a.y | (uintptr_t)a.sums) %
                                      16 ==
                                  0;
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

// A thread adds up N columns of a slice of the rows, or their gradients of GELU. It loads AHEAD
// rows at a time, because it would wait for each one otherwise.
enum { AHEAD = 4 };
template <cudaDataType type, int N, int GELU>
__global__ static void columns_kernel(struct rows a, unsigned slices) {
    typedef values<type, N> unit;
    typedef values<GELU ? type : CUDA_R_16BF, N> result;
    unsigned slice = blockIdx.x % slices, units = a.cols / N; // of a row
    unsigned own = blockIdx.x / slices * BLOCK_THREADS + threadIdx.x;
    size_t end = a.rows * (slice + 1) / slices;
    values<CUDA_R_32F, N> sums = {};
    if (own >= units)
        return;
    unit bias = {};
    if (GELU)
        bias = ((const unit *)a.bias)[own];
    for (size_t row = a.rows * slice / slices; row < end; row += AHEAD) {
        size_t first = row * units + own;
        unit x[AHEAD], dy[AHEAD];
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (row + i < end) {
                x[i] = ((const unit *)a.x)[first + i * units];
                if (GELU)
                    dy[i] = ((const unit *)a.other)[first + i * units];
            }
#pragma unroll
        for (unsigned i = 0; i < AHEAD; i++)
            if (row + i < end) {
                result y;
                for (int k = 0; k < N; k++) {
                    float value = value_at(&x[i], type, k);
                    if (GELU)
                        value = gelu_gradient(value + value_at(&bias, type, k),
                                              value_at(&dy[i], type, k));
                    set_value(&y, GELU ? type : CUDA_R_16BF, k, value);
                    sums.at[k] += value;
                }
                if (GELU || a.y)
                    ((result *)a.y)[first + i * units] = y;
            }
    }
    ((values<CUDA_R_32F, N> *)a.sums)[slice * (size_t)units + own] = sums;
}

template <cudaDataType type, int N>
static void launch_columns_by(const struct rows &a, unsigned slices, cudaStream_t stream) {
    unsigned blocks = (a.cols / N + BLOCK_THREADS - 1) / BLOCK_THREADS * slices;
    if (a.bias)
        LAUNCH_BLOCKS((columns_kernel<type, N, 1>), blocks, dim3(BLOCK_THREADS), stream, a, slices);
    else
        LAUNCH_BLOCKS((columns_kernel<type, N, 0>), blocks, dim3(BLOCK_THREADS), stream, a, slices);
}

static void launch_columns(const struct rows *a, size_t slices, cudaStream_t stream) {
    int aligned = are_aligned(*a);
    if (a->type == CUDA_R_32F && aligned)
        launch_columns_by<CUDA_R_32F, 4>(*a, slices, stream);
    else if (a->type == CUDA_R_32F)
        launch_columns_by<CUDA_R_32F, 1>(*a, slices, stream);
    else if (aligned)
        launch_columns_by<CUDA_R_16BF, 8>(*a, slices, stream);
    else
        launch_columns_by<CUDA_R_16BF, 1>(*a, slices, stream);
}
