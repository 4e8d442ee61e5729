#include "01_single_gpu/ladder/fused.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"

static void set(cublasLtMatmulDesc_t description, cublasLtMatmulDescAttributes_t name,
                const void *value, size_t bytes) {
    CUBLAS_CHECK(cublasLtMatmulDescSetAttribute(description, name, value, bytes));
}

// Layers follow one another in the flat arrays without gaps, so their matrices are aligned to one
// element only.
static void promise_alignment(cublasLtMatmulPreference_t preference, uint32_t bytes) {
    for (int i = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
         i <= CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES; i++)
        CUBLAS_CHECK(cublasLtMatmulPreferenceSetAttribute(
            preference, (cublasLtMatmulPreferenceAttributes_t)i, &bytes, sizeof bytes));
}

// Asks for a kernel. Kernels read and write the bias 16 bytes at a time.
static void choose_kernel(struct fused_product *f, const struct pass *pass) {
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t best = {0}; // stays so if there is no kernel
    int found = 0;
    CUBLAS_CHECK(cublasLtMatmulPreferenceCreate(&preference));
    promise_alignment(preference, type_size(pass->type));
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        (cublasLtHandle_t)pass->blas, f->description, f->first, f->second, f->result, f->result,
        preference, 1, &best, &found);
    CUBLAS_CHECK(cublasLtMatmulPreferenceDestroy(preference));
    if (status != CUBLAS_STATUS_NOT_SUPPORTED)
        CUBLAS_CHECK(status);
    f->one_launch = status == CUBLAS_STATUS_SUCCESS && found && (uintptr_t)f->bias % 16 == 0;
    f->kernel = best.algo;
}

// Plans C [rows, cols] = op(A) op(B), with an inner size of depth, for row-major matrices. Either A
// or B is transposed. cuBLASLt is column-major, so it gets the matrices in the other order, as
// cuBLAS does in common/layers/products.c.
static void plan(struct fused_product *f, const struct pass *pass, cublasLtEpilogue_t epilogue,
                 int transpose_a, int rows, int cols, int depth) {
    const int32_t a = transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
    const int32_t b = transpose_a ? CUBLAS_OP_N : CUBLAS_OP_T;
    int a_width = transpose_a ? rows : depth, b_width = transpose_a ? cols : depth;
    cublasMath_t math;
    CUBLAS_CHECK(cublasGetMathMode(pass->blas, &math));
    CUBLAS_CHECK(cublasLtMatmulDescCreate(
        &f->description,
        math == CUBLAS_TF32_TENSOR_OP_MATH ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F,
        CUDA_R_32F));
    set(f->description, CUBLASLT_MATMUL_DESC_TRANSA, &b, sizeof b);
    set(f->description, CUBLASLT_MATMUL_DESC_TRANSB, &a, sizeof a);
    set(f->description, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set(f->description, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &f->bias, sizeof f->bias);
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&f->first, pass->type, b_width,
                                            transpose_a ? depth : cols, b_width));
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&f->second, pass->type, a_width,
                                            transpose_a ? depth : rows, a_width));
    CUBLAS_CHECK(cublasLtMatrixLayoutCreate(&f->result, CUDA_R_32F, cols, rows, cols));
    choose_kernel(f, pass);
}

static void launch(const struct fused_product *f, const struct pass *pass, const void *a,
                   const void *b, float *result) {
    const float one = 1, zero = 0;
    CUBLAS_CHECK(cublasLtMatmul((cublasLtHandle_t)pass->blas, f->description, &one, b, f->first, a,
                                f->second, &zero, result, f->result, result, f->result, &f->kernel,
                                NULL, 0, pass->stream));
}

void plan_forward(struct fused_product *f, const struct pass *pass, int m, int n, int k,
                  float *bias, int relu) {
    *f = (struct fused_product){.m = m, .n = n, .k = k, .relu = relu, .bias = bias};
    plan(f, pass, relu ? CUBLASLT_EPILOGUE_RELU_BIAS : CUBLASLT_EPILOGUE_BIAS, 0, m, n, k);
}

void run_forward(const struct fused_product *f, const struct pass *pass, const void *x,
                 const void *w, float *y) {
    if (f->one_launch) {
        launch(f, pass, x, w, y);
        return;
    }
    matmul_rounded(pass, 0, 1, f->m, f->n, f->k, x, w, 0, y, CUDA_R_32F);
    add_bias(y, f->bias, f->m, f->n, f->relu, pass->stream);
}

void plan_gradients(struct fused_product *f, const struct pass *pass, int m, int n, int k,
                    float *dbias) {
    *f = (struct fused_product){.m = m, .n = n, .k = k, .bias = dbias};
    plan(f, pass, CUBLASLT_EPILOGUE_BGRADB, 1, n, k, m);
}

void run_gradients(const struct fused_product *f, const struct pass *pass, const float *dy,
                   const void *dy_read, const void *x, float *dw) {
    if (f->one_launch) {
        launch(f, pass, dy_read, x, dw);
        return;
    }
    matmul_rounded(pass, 1, 0, f->n, f->k, f->m, dy_read, x, 0, dw, CUDA_R_32F);
    sum_rows(dy, f->bias, f->m, f->n, pass->stream);
}

void end_fused(struct fused_product *f) {
    if (!f->description) // it was never planned
        return;
    CUBLAS_CHECK(cublasLtMatrixLayoutDestroy(f->result));
    CUBLAS_CHECK(cublasLtMatrixLayoutDestroy(f->second));
    CUBLAS_CHECK(cublasLtMatrixLayoutDestroy(f->first));
    CUBLAS_CHECK(cublasLtMatmulDescDestroy(f->description));
}
