// Products of float matrices on the CPU: by oneDNN, which makes its code for the processor at hand,
// or else by a CBLAS library (tools/find_libs.sh chooses).
#pragma once
#include <stddef.h>

// C [m, n] = alpha op(A) op(B) + beta C with column-major matrices, as sgemm of BLAS. All of it
// runs on the calling thread, as the pool of parallel.c shares the work out.
void cpu_sgemm(int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
               const float *b, int ldb, float beta, float *c, int ldc);

// Writes the library's name and version or, for OpenBLAS, the processor whose kernels it runs and,
// where this processor can do clearly more, the cure.
void cpu_sgemm_library(char *text, size_t bytes);

// Lets the library set up what it sets up at its first products.
void cpu_sgemm_begin(void);
