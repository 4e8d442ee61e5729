// A product of cuBLASLt for tests, whose arguments may be wrong.
#pragma once
#include "test.h"
#include <cublasLt.h>

struct light {
    cublasLtHandle_t handle;
    int m, n, k, transa, transb;
    cudaDataType in, out;
    cublasComputeType_t compute;
    uint32_t epilogue;
    uintptr_t base, a, b, c, d, bias; // addresses, from base on; 0: no bias
    int64_t ld;                       // of A and B; 0: without gaps
    int missing;                      // rows of D
    uint32_t alignment;               // that the program promises
    void *workspace;
    int find, chosen_for; // 1: asks for an algorithm, with the epilogue chosen_for (0: the same)
};

static inline void set_light(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t name,
                             const void *value, size_t bytes) {
    OK(cublasLtMatmulDescSetAttribute(d, name, value, bytes));
}

static inline cublasLtMatrixLayout_t light_layout(cudaDataType type, int rows, int cols,
                                                  int64_t ld) {
    cublasLtMatrixLayout_t layout;
    OK(cublasLtMatrixLayoutCreate(&layout, type, (uint64_t)rows, (uint64_t)cols, ld ? ld : rows));
    return layout;
}

// Returns the first status that is no success.
static inline cublasStatus_t run_light(const struct light *p, cudaStream_t stream) {
    const float one = 1, zero = 0;
    const void *bias = p->bias ? (void *)(p->base + p->bias) : NULL;
    uint32_t epilogue = p->chosen_for ? (uint32_t)p->chosen_for : p->epilogue;
    int found;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    cublasLtMatmulDesc_t d;
    cublasLtMatmulPreference_t preference;
    cublasLtMatmulHeuristicResult_t result;
    OK(cublasLtMatmulDescCreate(&d, p->compute, CUDA_R_32F));
    set_light(d, CUBLASLT_MATMUL_DESC_TRANSA, &p->transa, sizeof p->transa);
    set_light(d, CUBLASLT_MATMUL_DESC_TRANSB, &p->transb, sizeof p->transb);
    set_light(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    set_light(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias, sizeof bias);
    cublasLtMatrixLayout_t layouts[] = {
        light_layout(p->in, p->transa ? p->k : p->m, p->transa ? p->m : p->k, p->ld),
        light_layout(p->in, p->transb ? p->n : p->k, p->transb ? p->k : p->n, p->ld),
        light_layout(p->out, p->m - p->missing, p->n, p->m)};
    OK(cublasLtMatmulPreferenceCreate(&preference));
    for (int matrix = 0; matrix < 4 && p->alignment; matrix++)
        OK(cublasLtMatmulPreferenceSetAttribute(preference,
                                                CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES + matrix,
                                                &p->alignment, sizeof p->alignment));
    if (p->find)
        status = cublasLtMatmulAlgoGetHeuristic(p->handle, d, layouts[0], layouts[1], layouts[2],
                                                layouts[2], preference, 1, &result, &found);
    set_light(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &p->epilogue, sizeof epilogue);
    if (!status)
        status = cublasLtMatmul(
            p->handle, d, &one, (void *)(p->base + p->a), layouts[0], (void *)(p->base + p->b),
            layouts[1], &zero, (void *)(p->base + p->c), layouts[2], (void *)(p->base + p->d),
            layouts[2], p->find ? &result.algo : NULL, p->workspace, p->workspace ? 64 : 0, stream);
    OK(cublasLtMatmulPreferenceDestroy(preference));
    for (int i = 0; i < 3; i++)
        OK(cublasLtMatrixLayoutDestroy(layouts[i]));
    OK(cublasLtMatmulDescDestroy(d));
    return status;
}
