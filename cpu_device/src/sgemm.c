#include "sgemm.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef WITH_ONEDNN

#include <dnnl.h>

void omp_set_num_threads(int); // of the OpenMP runtime that oneDNN is linked with

// Computes C = beta C. If k is 0, this is the whole product, and oneDNN does not always compute it.
static void scale(int m, int n, float beta, float *c, int ldc) {
    for (int col = 0; col < n; col++, c += ldc)
        for (int row = 0; row < m; row++)
            c[row] = beta == 0.f ? 0.f : beta * c[row];
}

// oneDNN uses row-major matrices, so it sees each of our matrices transposed: C^T = op(B)^T
// op(A)^T.
void cpu_sgemm(int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
               const float *b, int ldb, float beta, float *c, int ldc) {
    if (k == 0) {
        scale(m, n, beta, c, ldc);
        return;
    }
    omp_set_num_threads(1); // applies to calls from this thread
    if (dnnl_sgemm(transb ? 'T' : 'N', transa ? 'T' : 'N', n, m, k, alpha, b, ldb, a, lda, beta, c,
                   ldc))
        abort();
}

int cpu_sgemm_stride(int ld) {
    enum { FLOATS = 2048 / sizeof(float), CACHE_LINE = 64 / sizeof(float) };
    int onednn_copies = __builtin_cpu_supports("avx512vl");
    return ld % FLOATS || onednn_copies ? ld : ld + CACHE_LINE;
}

void cpu_sgemm_library(char *text, size_t bytes) {
    const dnnl_version_t *v = dnnl_version();
    snprintf(text, bytes, "oneDNN %d.%d", v->major, v->minor);
}

#else

#include <cblas.h>

// Only OpenBLAS has these functions, and only some builds of it use OpenMP.
__attribute__((weak)) void openblas_set_num_threads(int);
__attribute__((weak)) char *openblas_get_corename(void);
__attribute__((weak)) void omp_set_num_threads(int);

// A product that several threads share adds its numbers in another order. With OpenMP, each thread
// must set its number of threads, and OpenBLAS 0.3.26 asks OpenMP for it.
static void stay_on_this_thread(void) {
    // openblas_set_num_threads frees buffers that other threads may use.
    static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
    static _Thread_local int told;
    if (told || !openblas_set_num_threads)
        return;
    pthread_mutex_lock(&one_at_a_time);
    openblas_set_num_threads(1);
    pthread_mutex_unlock(&one_at_a_time);
    if (omp_set_num_threads)
        omp_set_num_threads(1);
    told = 1;
}

void cpu_sgemm(int transa, int transb, int m, int n, int k, float alpha, const float *a, int lda,
               const float *b, int ldb, float beta, float *c, int ldc) {
    stay_on_this_thread();
    cblas_sgemm(CblasColMajor, transa ? CblasTrans : CblasNoTrans,
                transb ? CblasTrans : CblasNoTrans, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

// These libraries copy the blocks of a matrix themselves.
int cpu_sgemm_stride(int ld) {
    return ld;
}

// An OpenBLAS that does not know this processor may choose the kernels of a much older one. Returns
// the name of a better choice, or NULL.
static const char *faster_kernels(const char *core) {
#if defined __x86_64__
    const char *with_avx2[] = {"Haswell",  "Zen",        "Excavator",
                               "SkylakeX", "Cooperlake", "SapphireRapids"};
    for (size_t i = 0; i < sizeof with_avx2 / sizeof *with_avx2; i++)
        if (!strcmp(core, with_avx2[i]))
            return NULL;
    if (__builtin_cpu_supports("avx512vl"))
        return "SkylakeX";
    if (__builtin_cpu_supports("avx2"))
        return "Haswell";
#endif
    (void)core;
    return NULL;
}

void cpu_sgemm_library(char *text, size_t bytes) {
#ifdef REFERENCE_BLAS
    const char *other = "the reference BLAS (slow: install oneDNN or OpenBLAS)";
#else
    const char *other = "CBLAS";
#endif
    const char *core = openblas_get_corename ? openblas_get_corename() : NULL;
    const char *faster = core ? faster_kernels(core) : NULL;
    if (!core)
        snprintf(text, bytes, "%s", other);
    else if (!faster)
        snprintf(text, bytes, "OpenBLAS for %s", core);
    else
        snprintf(text, bytes, "OpenBLAS for %s (slow here: set OPENBLAS_CORETYPE=%s)", core,
                 faster);
}

#endif

void cpu_sgemm_begin(void) {
    enum { N = 64 }; // smaller products may use other code of the library
    static float zeros[3][N * N];
    for (int i = 0; i < 3; i++)
        cpu_sgemm(i == 1, i == 2, N, N, N, 1, zeros[0], N, zeros[1], N, 0, zeros[2], N);
}
