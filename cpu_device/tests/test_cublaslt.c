// Tests of the CPU device's cuBLASLt: a product with an epilogue has the bits of the same product
// of cuBLAS and of the loops that the epilogue replaces. test_api_rules.c has what it refuses.
#include "../src/floats.h"
#include "arrays.h"
#include "light.h"

static cublasHandle_t blas;

// Returns random numbers of the type on the device, and the same as floats in *floats.
static void *random_numbers(cudaDataType type, int count, uint64_t seed, float **floats) {
    size_t n = (size_t)count;
    *floats = new_array(n * sizeof(float));
    uint16_t *narrow = new_array(n * sizeof *narrow);
    for (size_t i = 0; i < n; i++) {
        narrow[i] = float_to_bfloat16((float)(2 * random_uniform(seed, i) - 1));
        (*floats)[i] = type == CUDA_R_16BF ? bfloat16_to_float(narrow[i])
                                           : (float)(2 * random_uniform(seed, i) - 1);
    }
    return type == CUDA_R_16BF ? to_device(narrow, n * sizeof *narrow)
                               : to_device(*floats, n * sizeof(float));
}

// Computes in *c and *bias, which hold the product of cuBLAS and the bias, what the epilogue does.
static void apply(const struct light *p, const float *b, float *c, float *bias) {
    if (p->epilogue & CUBLASLT_EPILOGUE_BIAS)
        for (int i = 0; i < p->m * p->n; i++) {
            c[i] += bias[i % p->m];
            if (p->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS && c[i] < 0)
                c[i] = 0;
        }
    for (int i = 0; p->epilogue == CUBLASLT_EPILOGUE_BGRADB && i < p->n; i++) {
        bias[i] = 0;
        for (int j = 0; j < p->k; j++)
            bias[i] += b[j * p->n + i];
    }
}

// Queues the product with the algorithm that the library chooses.
static void multiply(struct light *p, const void *a, const void *b, float *c, float *bias) {
    p->handle = (cublasLtHandle_t)blas;
    p->find = 1;
    p->a = (uintptr_t)a;
    p->b = (uintptr_t)b;
    p->c = p->d = (uintptr_t)c;
    p->bias = p->epilogue == CUBLASLT_EPILOGUE_DEFAULT ? 0 : (uintptr_t)bias; // which refuses one
    OK(run_light(p, NULL));
}

static void check(struct light p) {
    const float one = 1, zero = 0;
    int biases = p.epilogue == CUBLASLT_EPILOGUE_BGRADB ? p.n : p.m;
    size_t c_bytes = (size_t)p.m * (size_t)p.n * sizeof(float);
    size_t bias_bytes = (size_t)biases * sizeof(float);
    float *a, *b, *bias;
    void *da = random_numbers(p.in, p.m * p.k, 1, &a);
    void *db = random_numbers(p.in, p.k * p.n, 2, &b);
    float *dbias = random_numbers(CUDA_R_32F, biases, 3, &bias);
    float *fused = new_device_array(c_bytes), *plain = new_device_array(c_bytes);
    multiply(&p, da, db, fused, dbias);
    OK(cublasGemmEx(blas, (cublasOperation_t)p.transa, (cublasOperation_t)p.transb, p.m, p.n, p.k,
                    &one, da, p.in, p.transa ? p.k : p.m, db, p.in, p.transb ? p.n : p.k, &zero,
                    plain, CUDA_R_32F, p.m, p.compute, CUBLAS_GEMM_DEFAULT));
    float *want = to_host(plain, c_bytes);
    apply(&p, b, want, bias);
    assert_unchanged(fused, want, c_bytes);
    assert_unchanged(dbias, bias, bias_bytes);
    free_arrays(NULL);
}

TEST(epilogues_have_the_bits_of_separate_loops) {
    const uint32_t epilogues[] = {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                                  CUBLASLT_EPILOGUE_RELU_BIAS, CUBLASLT_EPILOGUE_BGRADB};
    // The large ones have several pieces, of rows and of columns.
    const int shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {512, 130, 300}, {100, 500, 340}};
    const cublasComputeType_t computes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F,
                                            CUBLAS_COMPUTE_32F_FAST_TF32};
    for (int e = 0; e < 4; e++)
        for (int trans = 0; trans < 4; trans++)
            for (int s = 0; s < (SANITIZED ? 2 : 4); s++)
                for (int type = 0; type < 3; type++) {
                    struct light p = {NULL, shapes[s][0], shapes[s][1], shapes[s][2]};
                    p.transa = trans & 1 ? CUBLAS_OP_T : CUBLAS_OP_N;
                    p.transb = trans & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
                    p.in = type == 1 ? CUDA_R_16BF : CUDA_R_32F;
                    p.compute = computes[type];
                    p.epilogue = epilogues[e];
                    if (p.epilogue != CUBLASLT_EPILOGUE_BGRADB || p.transb) // else refused
                        check(p);
                }
}

TEST(relu_turns_nan_into_zero) {
    struct light p = {NULL, 2, 1, 1};
    const float a[] = {NAN, -3}, one = 1, bias[] = {1, 2};
    float *c = new_device_array(sizeof a);
    p.compute = CUBLAS_COMPUTE_32F;
    p.epilogue = CUBLASLT_EPILOGUE_RELU_BIAS;
    multiply(&p, to_device(a, sizeof a), to_device(&one, sizeof one), c,
             to_device(bias, sizeof bias));
    const float *got = to_host(c, sizeof a);
    assert_true(got[0] == 0);
    assert_true(got[1] == 0);
}

static int create_handle(void **state) {
    OK(cublasCreate(&blas));
    return 0;
}

static int destroy_handle(void **state) {
    OK(cublasDestroy(blas));
    return 0;
}

int main(void) {
    setenv("OMP_NUM_THREADS", "3", 0); // products are shared out even where there is one core
    return run_all_tests((struct around){create_handle, destroy_handle, .end = free_arrays});
}
