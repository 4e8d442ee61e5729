// Tests of the CPU device's cuBLAS and cuBLASLt: results match sums in double precision.
// test_api_rules.c has what they refuse.
#include "../src/floats.h"
#include "../src/internal.h"
#include "again.h"
#include "arrays.h"
#include "light.h"

static cublasHandle_t blas;

// A floating-point format: bits of the significand, exponent of the smallest number.
struct format {
    cudaDataType type;
    int bytes, precision, smallest;
};
static const struct format fp32 = {CUDA_R_32F, 4, 24, -149}, bf16 = {CUDA_R_16BF, 2, 8, -133};

// Returns the exponent of the last bit of x.
static int last_bit(const struct format *f, double x) {
    int exponent;
    frexp(x, &exponent);
    return x != 0 && exponent - f->precision > f->smallest ? exponent - f->precision : f->smallest;
}

// test_reduce.c tests the conversions of bfloat16.
static double load(const struct format *f, const void *array, size_t i) {
    if (f->type == CUDA_R_32F)
        return ((const float *)array)[i];
    return bfloat16_to_float(((const uint16_t *)array)[i]);
}

static void store(const struct format *f, void *array, size_t i, float x) {
    if (f->type == CUDA_R_32F)
        ((float *)array)[i] = x;
    else
        ((uint16_t *)array)[i] = float_to_bfloat16(x);
}

// Makes a column-major matrix of random numbers in -1..1 (or of one value). Its padding keeps the
// bytes of the guards.
static void *random_matrix(const struct format *f, int rows, int cols, int ld, uint64_t seed,
                           float value) {
    void *matrix = new_array((size_t)f->bytes * (size_t)ld * (size_t)cols);
    for (int c = 0; c < cols; c++)
        for (int r = 0; r < rows; r++) {
            size_t i = (size_t)c * (size_t)ld + (size_t)r;
            store(f, matrix, i, isnan(value) ? value : (float)(2 * random_uniform(seed, i) - 1));
        }
    return matrix;
}

static void check_gemm(const struct format *in, const struct format *out, int transa, int transb,
                       int m, int n, int k, int padding, float alpha, float beta) {
    int a_rows = transa ? k : m, a_cols = transa ? m : k, b_rows = transb ? n : k,
        b_cols = transb ? k : n;
    int lda = a_rows + padding + !a_rows, ldb = b_rows + padding + !b_rows, ldc = m + padding;
    void *a = random_matrix(in, a_rows, a_cols, lda, 1, 0),
         *b = random_matrix(in, b_rows, b_cols, ldb, 2, 0);
    void *c = random_matrix(out, m, n, ldc, 3, beta == 0 ? NAN : 0); // times 0, NaN must vanish
    size_t bytes = (size_t)out->bytes * (size_t)ldc * (size_t)n;
    void *da = to_device(a, (size_t)in->bytes * (size_t)lda * (size_t)a_cols);
    void *db = to_device(b, (size_t)in->bytes * (size_t)ldb * (size_t)b_cols),
         *dc = to_device(c, bytes);
    cublasOperation_t transposed = padding ? CUBLAS_OP_T : CUBLAS_OP_C; // the same for real numbers
    cublasOperation_t opa = transa ? transposed : CUBLAS_OP_N,
                      opb = transb ? transposed : CUBLAS_OP_N;
    if (in == &fp32 && padding)
        OK(cublasSgemm(blas, opa, opb, m, n, k, &alpha, da, lda, db, ldb, &beta, dc, ldc));
    else
        OK(cublasGemmEx(blas, opa, opb, m, n, k, &alpha, da, in->type, lda, db, in->type, ldb,
                        &beta, dc, out->type, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    void *got = to_host(dc, bytes);
    for (size_t i = 0; i < (size_t)ldc * (size_t)n; i++) {
        int row = (int)(i % (size_t)ldc), col = (int)(i / (size_t)ldc);
        size_t at = i * (size_t)out->bytes;
        if (row >= m) { // padding stays
            assert_memory_equal((char *)got + at, (char *)c + at, (size_t)out->bytes);
            continue;
        }
        double want = beta == 0 ? 0 : beta * load(out, c, i), size = fabs(want);
        for (int j = 0; j < k; j++) {
            double term = alpha *
                          load(in, a, transa ? (size_t)(row * lda + j) : (size_t)(j * lda + row)) *
                          load(in, b, transb ? (size_t)(j * ldb + col) : (size_t)(col * ldb + j));
            want += term;
            size += fabs(term);
        }
        double error = fabs(load(out, got, i) - want);
        if (!(error <= size * (k + 3) * 0x1p-24 + ldexp(1, last_bit(out, want) - 1) * 1.001)) {
            print_error(
                "type %d to %d, trans %d %d, %d x %d x %d, padding %d, alpha %g, beta %g: [%d, %d] "
                "is %.9g, not %.9g\n",
                in->type, out->type, transa, transb, m, n, k, padding, alpha, beta, row, col,
                load(out, got, i), want);
            fail_msg("wrong product");
        }
    }
    free_arrays(NULL);
}

TEST(products_are_right) {
    const int shapes[][3] = {{1, 1, 1},  {3, 5, 7}, {17, 1, 33},
                             {1, 19, 4}, {4, 3, 0}, {66, 31, 40}};
    const struct {
        int m, n, k, padding;
    } large[] = {{520, 130, 260, 2}, // two pieces of rows
                 {100, 520, 340, 2}, // two pieces of columns
                 {50, 66, 5200, 2},  // two pieces of terms, if they are the columns of A and B
                 {512, 70, 40, 0},   // A is copied, if cpu_sgemm_stride asks for it
                 {70, 512, 40, 0}};  // B is copied, if it is transposed
    const float scalars[][2] = {{1, 0}, {1, 1}, {-0.5f, 2}, {0, 1}, {0, 0}};
    const struct format *formats[][2] = {{&fp32, &fp32}, {&bf16, &bf16}, {&bf16, &fp32}};
    for (int trans = 0; trans < 4; trans++) {
        for (size_t f = 0; f < 3; f++)
            for (size_t s = 0; s < 6; s++)
                for (size_t x = 0; x < 5; x++)
                    check_gemm(formats[f][0], formats[f][1], trans & 1, trans >> 1, shapes[s][0],
                               shapes[s][1], shapes[s][2], (int)(s + x) % 2 * 3, scalars[x][0],
                               scalars[x][1]);
        for (size_t f = 0; f < 3 && !SANITIZED; f += 2)
            for (size_t s = 0; s < sizeof large / sizeof *large; s++)
                check_gemm(formats[f][0], formats[f][1], trans & 1, trans >> 1, large[s].m,
                           large[s].n, large[s].k, large[s].padding, 1, 1);
    }
}

// Returns a checksum of the bits of many products, with one piece, several pieces and a remainder.
static uint64_t bits_of_products(void) {
    const int shapes[][3] = {{512, 64, 784},  {409, 123, 784}, {784, 512, 64},
                             {242, 166, 690}, {257, 129, 260}, {100, 500, 170},
                             {97, 1000, 77},  {301, 299, 303}, {70, 90, 4100}};
    const float one = 1, zero = 0;
    uint64_t sum = 0;
    for (size_t s = 0; s < (SANITIZED ? 1 : sizeof shapes / sizeof *shapes); s++)
        for (int trans = 0; trans < 4; trans++) {
            int m = shapes[s][0], n = shapes[s][1], k = shapes[s][2];
            int lda = trans & 1 ? k : m, ldb = trans & 2 ? n : k;
            size_t a = (size_t)m * (size_t)k, b = (size_t)k * (size_t)n,
                   c = (size_t)m * (size_t)n * sizeof(float);
            float *da = to_device(random_matrix(&fp32, (int)a, 1, (int)a, 1, 0), a * sizeof *da),
                  *db = to_device(random_matrix(&fp32, (int)b, 1, (int)b, 2, 0), b * sizeof *db),
                  *dc = new_device_array(c);
            OK(cublasSgemm(blas, trans & 1 ? CUBLAS_OP_T : CUBLAS_OP_N,
                           trans & 2 ? CUBLAS_OP_T : CUBLAS_OP_N, m, n, k, &one, da, lda, db, ldb,
                           &zero, dc, m));
            const uint32_t *bits = to_host(dc, c);
            for (size_t i = 0; i < c / sizeof *bits; i++)
                sum = sum * 0x9e3779b97f4a7c15 + bits[i];
            free_arrays(NULL);
        }
    return sum;
}

// The device reads OMP_NUM_THREADS once per process, so each number of threads has its own process.
TEST(bits_do_not_depend_on_the_number_of_threads) {
    uint64_t sums[3];
    for (int threads = 1; threads <= 3; threads++) {
        char variables[32], line[32];
        snprintf(variables, sizeof variables, "OMP_NUM_THREADS=%d", threads);
        assert_int_equal(run_again(variables, "bits", line, sizeof line), 0);
        sums[threads - 1] = strtoull(line, NULL, 16);
        assert_int_equal(sums[threads - 1], sums[0]);
    }
}

// TF32 keeps 10 bits after the first: ties go to even, and infinity stays.
TEST(tf32_rounds_the_inputs_of_products) {
    const float x[] = {1 + 0x1p-11f,  1 + 0x3p-11f, 1 + 0x1.8p-11f,
                       -1 - 0x1p-12f, 0x1p-140f,    INFINITY};
    const float rounded[] = {1, 1 + 0x1p-9f, 1 + 0x1p-10f, -1, 0, INFINITY};
    const float one = 1, zero = 0;
    float *a = to_device(x, sizeof x), *b = to_device(&one, sizeof one),
          *c = to_device(x, sizeof x);
    for (int allowed = 0; allowed < 2; allowed++) {
        OK(cublasSetMathMode(blas, allowed ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH));
        OK(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, 6, 1, 1, &one, a, 6, b, 1, &zero, c, 6));
        OK(cublasSetMathMode(blas, CUBLAS_DEFAULT_MATH));
        assert_unchanged(c, allowed ? rounded : x, sizeof x);
        assert_unchanged(a, x, sizeof x);
    }
    OK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 6, 1, 1, &one, a, CUDA_R_32F, 6, b, CUDA_R_32F,
                    1, &zero, c, CUDA_R_32F, 6, CUBLAS_COMPUTE_32F_FAST_TF32, CUBLAS_GEMM_DEFAULT));
    assert_unchanged(c, rounded, sizeof x);
}

// cuBLASLt: a product with an epilogue has the bits of the same product of cuBLAS and of the loops
// that the epilogue replaces.

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

static void check_light(struct light p) {
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
    // The large ones have several pieces, of rows, of columns and of terms.
    const int shapes[][3] = {
        {1, 1, 1}, {3, 5, 7}, {512, 130, 300}, {100, 500, 340}, {70, 90, 4100}};
    const cublasComputeType_t computes[] = {CUBLAS_COMPUTE_32F, CUBLAS_COMPUTE_32F,
                                            CUBLAS_COMPUTE_32F_FAST_TF32};
    for (int e = 0; e < 4; e++)
        for (int trans = 0; trans < 4; trans++)
            for (int s = 0; s < (SANITIZED ? 2 : 5); s++)
                for (int type = 0; type < 3; type++) {
                    struct light p = {NULL, shapes[s][0], shapes[s][1], shapes[s][2]};
                    p.transa = trans & 1 ? CUBLAS_OP_T : CUBLAS_OP_N;
                    p.transb = trans & 2 ? CUBLAS_OP_T : CUBLAS_OP_N;
                    p.in = type == 1 ? CUDA_R_16BF : CUDA_R_32F;
                    p.compute = computes[type];
                    p.epilogue = epilogues[e];
                    if (p.epilogue != CUBLASLT_EPILOGUE_BGRADB || p.transb) // else refused
                        check_light(p);
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

int main(int argc, char **argv) {
    if (argc == 2 && !strcmp(argv[1], "bits")) {
        OK(cublasCreate(&blas));
        return printf("%016llx\n", (unsigned long long)bits_of_products()) < 0;
    }
    setenv("OMP_NUM_THREADS", "3", 0); // products are shared out even where there is one core
    return run_all_tests((struct around){create_handle, destroy_handle, .end = free_arrays});
}
