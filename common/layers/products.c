#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"

// cuBLAS is column-major: it reads our rows as columns, so it sees each of our matrices transposed.
// So we ask for op(B)^T op(A)^T, with B first, and m and n swapped. cuBLAS stores the columns of
// this product, which are the rows of C. lda is the length of a stored row.
void matmul_rounded(const struct pass *pass, int transpose_a, int transpose_b, int m, int n, int k,
                    const void *a, const void *b, float beta, void *c, cudaDataType type) {
    const float one = 1.f;
    CUBLAS_CHECK(cublasGemmEx(pass->blas, transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
                              transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, n, m, k, &one, b, pass->type,
                              transpose_b ? k : n, a, pass->type, transpose_a ? m : k, &beta, c,
                              type, n, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void matmul(const struct pass *pass, int transpose_a, int transpose_b, int m, int n, int k,
            const float *a, const void *b, float *c) {
    size_t a_size = (size_t)m * k;
    const void *a_read = rounded(pass, a, a_size, 0);
    if (transpose_a)
        b = rounded(pass, b, (size_t)k * n, matmul_scratch(pass->type, a_size));
    matmul_rounded(pass, transpose_a, transpose_b, m, n, k, a_read, b, 0, c, CUDA_R_32F);
}

size_t matmul_scratch(cudaDataType type, size_t count) {
    return type == CUDA_R_32F ? 0 : count * type_size(type);
}

const void *rounded(const struct pass *pass, const float *x, size_t count, size_t at) {
    if (pass->type == CUDA_R_32F)
        return x;
    uint16_t *y = (void *)((char *)pass->scratch + at);
    to_bfloat16(y, x, count, pass->stream);
    return y;
}

const float *as_floats(const struct pass *pass, const void *parameters, size_t first,
                       size_t count) {
    const void *values = parameter_at(pass, parameters, first);
    if (pass->type == CUDA_R_32F)
        return values;
    from_bfloat16(pass->scratch, values, count, pass->stream);
    return pass->scratch;
}

const void *parameter_at(const struct pass *pass, const void *parameters, size_t index) {
    return (const char *)parameters + index * type_size(pass->type);
}
