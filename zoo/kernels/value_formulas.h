// What the kernels of values share on both devices, as common/kernels/formulas.h explains.
// FORMULA_OF_ROWS(kernel, y_type) begins a function that computes element i of y, which is in
// column col, from values of a constant type.
#pragma once
#include "zoo/kernels/value_kernels.h"
#include "zoo/kernels/values.h"
#include <math.h>

struct rows {
    const void *x, *bias, *other; // other: a second array of inputs
    void *y;
    cudaDataType type;
    size_t rows, cols;
    float *sums; // of the columns of each slice
};

FORMULA_OF_ROWS(add_value_bias, type) {
    return value_at(a.x, type, i) + value_at(a.bias, type, col);
}

void add_value_bias(void *values, const void *bias, int rows, int cols, cudaDataType type,
                    cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    const void *x = READS_VALUES(values, type, n * m), *b = READS_VALUES(bias, type, m);
    void *y = WRITES_VALUES(values, type, n * m);
    struct rows a = {x, b, NULL, y, type, n, m, NULL};
    LAUNCH_ROWS(add_value_bias, a, stream);
}

FORMULA_OF_ROWS(add_values, CUDA_R_32F) {
    float bias = a.bias ? value_at(a.bias, type, col) : 0.f;
    return value_at(a.other, CUDA_R_32F, i) + (value_at(a.x, type, i) + bias);
}

void add_values(const float *x, const void *values, const void *bias, float *y, int rows, int cols,
                cudaDataType type, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    const void *v = READS_VALUES(values, type, n * m);
    const void *b = bias ? READS_VALUES(bias, type, m) : NULL;
    const void *others = READS(x, n * m);
    void *sums = WRITES(y, n * m);
    struct rows a = {v, b, others, sums, type, n, m, NULL};
    LAUNCH_ROWS(add_values, a, stream);
}

// (1 + tanh(u)) / 2 for the u of GELU at x. Each device has its own sigmoid(x) = 1 / (1 + e^-x), in
// the file that includes this one.
DEVICE_FUNCTION float gelu_share(float x) {
    return sigmoid(2 * 0.7978845608f * (x + 0.044715f * x * x * x));
}

FORMULA_OF_ROWS(bias_gelu, type) {
    float x = value_at(a.x, type, i) + value_at(a.bias, type, col);
    return x * gelu_share(x);
}

void bias_gelu(const void *x, const void *bias, void *y, int rows, int cols, cudaDataType type,
               cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    const void *v = READS_VALUES(x, type, n * m), *b = READS_VALUES(bias, type, m);
    void *results = WRITES_VALUES(y, type, n * m);
    struct rows a = {v, b, NULL, results, type, n, m, NULL};
    COMPUTES(18. * (n * m));
    LAUNCH_ROWS(bias_gelu, a, stream);
}

// The gradient of x from that of GELU. 1 - share would lose digits if the share were nearly 1.
DEVICE_FUNCTION float gelu_gradient(float x, float dy) {
    float less = gelu_share(-fabsf(x)), share = x > 0.f ? 1 - less : less;
    float slope = 2 * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
    return dy * (share + x * less * (1 - less) * slope);
}

// Adds up the columns of x or, with a bias, the gradients of GELU, where other are those of its
// results. It also writes what it adds up to y, which may be NULL.
static void launch_columns(const struct rows *a, size_t slices, cudaStream_t stream);

void sum_columns(const void *x, cudaDataType type, uint16_t *rounded, float *sums, float *scratch,
                 int rows, int cols, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols, slices = (size_t)column_slices(rows);
    const void *v = READS_VALUES(x, type, n * m);
    void *y = rounded ? WRITES(rounded, n * m) : NULL;
    float *partial = WRITES(scratch, slices * m);
    struct rows a = {v, NULL, NULL, y, type, n, m, partial};
    launch_columns(&a, slices, stream);
    sum_rows(scratch, sums, (int)slices, cols, stream);
}

void bias_gelu_backward(const void *x, const void *bias, const void *dy, void *dx,
                        cudaDataType type, float *dbias, float *scratch, int rows, int cols,
                        cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols, slices = (size_t)column_slices(rows);
    const void *v = READS_VALUES(x, type, n * m), *b = READS_VALUES(bias, type, m);
    const void *gradients = READS_VALUES(dy, type, n * m);
    void *y = WRITES_VALUES(dx, type, n * m);
    float *partial = WRITES(scratch, slices * m);
    struct rows a = {v, b, gradients, y, type, n, m, partial};
    COMPUTES(28. * (n * m));
    launch_columns(&a, slices, stream);
    sum_rows(scratch, dbias, (int)slices, cols, stream);
}
