// Kernels of values: floats, or bfloat16 in a pass in bfloat16 (zoo/layers/inner.h). All values of
// a kernel have the type that it is told, and it computes with floats. Arrays are [rows, cols].
#pragma once
#include "common/kernels/kernels.h"

// values[r, c] += bias[c].
void add_value_bias(void *values, const void *bias, int rows, int cols, cudaDataType type,
                    cudaStream_t stream);

// y[r, c] = x[r, c] + (values[r, c] + bias[c]). x and y are floats. bias may be NULL.
void add_values(const float *x, const void *values, const void *bias, float *y, int rows, int cols,
                cudaDataType type, cudaStream_t stream);

// With z = x[r, c] + bias[c]: y = z / 2 * (1 + tanh(sqrt(2 / pi) * (z + 0.044715 z^3))), the
// approximation of GELU that GPT-2 uses (Hendrycks and Gimpel, "Gaussian error linear units",
// 2016), as in torch.nn.GELU("tanh").
void bias_gelu(const void *x, const void *bias, void *y, int rows, int cols, cudaDataType type,
               cudaStream_t stream);

// Sums over all rows are first made for slices of the rows. Many short sums keep a device busier
// than a few long ones, and round less. Returns their number.
static inline int column_slices(int rows) {
    return rows < 512 * 16 ? rows / 16 + 1 : 512;
}

// sums[c] = sum over r of x[r, c]. If rounded is not NULL, x are floats, and rounded[r, c] becomes
// x[r, c] as a bfloat16. scratch: column_slices(rows) * cols floats.
void sum_columns(const void *x, cudaDataType type, uint16_t *rounded, float *sums, float *scratch,
                 int rows, int cols, cudaStream_t stream);

// dx, and dbias = its sums over the rows, with as much scratch.
void bias_gelu_backward(const void *x, const void *bias, const void *dy, void *dx,
                        cudaDataType type, float *dbias, float *scratch, int rows, int cols,
                        cudaStream_t stream);
