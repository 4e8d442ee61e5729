#include "common/device.h"
#include "common/kernels.h"
#include "common/layers/layers.h"
#include <math.h>

// C [m, n] = op(A) op(B), with op(A) [m, k] and op(B) [k, n]. All matrices are row-major. A and B
// have the type of the pass, and sums are floats.
//
// cuBLAS is column-major: it reads our rows as columns, so it sees each of our matrices transposed.
// So we ask for op(B)^T op(A)^T, with B first, and m and n swapped. cuBLAS stores the columns of
// this product, which are the rows of C. lda is the length of a stored row.
static void matmul(const struct pass *pass, int transpose_a, int transpose_b, int m, int n, int k,
                   const void *a, const void *b, float *c) {
    const float one = 1.f, zero = 0.f;
    CUBLAS_CHECK(cublasGemmEx(pass->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                              transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, pass->type,
                              transpose_b ? k : n, a, pass->type, transpose_a ? m : k, &zero, c,
                              CUDA_R_32F, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

// Returns x as an input of matmul: x itself, or its count elements rounded to bfloat16, which it
// writes to scratch from element first on.
static const void *rounded(const struct pass *pass, const float *x, size_t count, size_t first) {
    if (pass->type == CUDA_R_32F)
        return x;
    uint16_t *y = (uint16_t *)pass->scratch + first;
    to_bfloat16(y, x, count, pass->stream);
    return y;
}

static void dense_initialise(const struct layer *l, float *parameters, size_t first_value,
                             size_t count, uint64_t seed, cudaStream_t stream) {
    fill_uniform(parameters, count, 1.f / sqrtf((float)l->inputs), seed, l->first + first_value,
                 stream);
}

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    size_t weights = (size_t)l->outputs * l->inputs;
    matmul(pass, 0, 1, b, l->outputs, l->inputs, rounded(pass, x, (size_t)b * l->inputs, 0),
           parameters, y);
    if (pass->type == CUDA_R_16BF) // scratch is free again, so it can hold the bias
        from_bfloat16(pass->scratch, (const uint16_t *)parameters + weights, l->outputs,
                      pass->stream);
    const float *bias =
        pass->type == CUDA_R_16BF ? pass->scratch : (const float *)parameters + weights;
    add_bias(y, bias, b, l->outputs, l->kind == &dense_relu, pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    float *dbias = gradients + (size_t)l->outputs * l->inputs;
    size_t inputs = (size_t)b * l->inputs, outputs = (size_t)b * l->outputs;
    if (l->kind == &dense_relu)
        relu_backward(dy, y, outputs, pass->stream);
    const void *dy_read = rounded(pass, dy, outputs, inputs);
    if (dx)
        matmul(pass, 0, 0, b, l->inputs, l->outputs, dy_read, parameters, dx); // dx = dy W
    const void *x_read = rounded(pass, x, inputs, 0);
    matmul(pass, 1, 0, l->outputs, l->inputs, b, dy_read, x_read, gradients); // dW = dy^T x
    sum_rows(dy, dbias, b, l->outputs, pass->stream);
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward,
                                      dense_backward};

void append_dense(struct model *m, const struct layer_kind *kind, int inputs, int outputs) {
    model_append(m, kind, inputs, outputs, 0, (size_t)outputs * ((size_t)inputs + 1));
}
