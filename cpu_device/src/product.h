// Matrix products of cuBLAS and cuBLASLt, whose arguments cublas.c and cublaslt.c check one by one.
// A library of the machine computes them (sgemm.h).
#pragma once
#include <cublas_v2.h>
#include <stddef.h>

// C = alpha op(A) op(B) + beta C, with column-major matrices. m and n are above 0.
struct cpu_product {
    cudaStream_t stream;
    int transa, transb, m, n, k;
    float alpha, beta;
    cudaDataType in, out; // types of A and B, and of C
    int tf32;             // 1: round floats of A and B to TF32
    const void *a, *b;
    void *c;
    int lda, ldb, ldc;
    // The epilogue. With a bias, C consists of floats.
    const float *bias; // [m] is added to each column of C. NULL: nothing is added
    int relu;          // 1: then negative values and NaN become 0
    float *sums;       // NULL, or [n]: the sums of op(B) over k, where B is transposed
};

// Checks that all arrays are inside device memory and do not overlap, and queues the product.
cublasStatus_t cpu_queue_product(const struct cpu_product *product);

// Returns the bytes of a number, or 0 for a type that has no products.
size_t cpu_element_bytes(cudaDataType type);

// Returns the device of a handle, or -1 if no such handle lives.
int cpu_device_of_handle(const void *handle);
