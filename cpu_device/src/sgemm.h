// Products of float matrices on the CPU. They use oneDNN, which generates code for this processor,
// or a CBLAS library if oneDNN is missing (the build chooses).
#pragma once
#include <stddef.h>

// C [m, n] = alpha op(A) op(B) + beta C with column-major matrices, as sgemm of BLAS. It runs on
// the calling thread only, because the pool of parallel.c divides the work.
void cpu_sgemm(int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
               const float *b, int ldb, float beta, float *c, int ldc);

// Returns a leading dimension of at least ld with which the library is fast. Without AVX-512,
// oneDNN reads the matrices of a small product in place. If the numbers of a sum lie a multiple of
// 2 KiB apart, they share a few places of the cache, and the product takes up to twice as long.
// With AVX-512, oneDNN copies such matrices itself.
int cpu_sgemm_stride(int ld);

// Writes the name and version of the library. For OpenBLAS, it writes the processor whose kernels
// OpenBLAS runs instead, and a hint if faster kernels exist for this processor.
void cpu_sgemm_library(char *text, size_t bytes);

// Lets the library do the setup that it would otherwise do in its first product.
void cpu_sgemm_begin(void);
