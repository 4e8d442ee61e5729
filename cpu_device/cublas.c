// The functions of cuBLAS. They check their arguments as cuBLAS does, and queue the call on the
// handle's stream. A library of the machine computes the matrix products (sgemm.h).
#include "cpu_device/floats.h"
#include "cpu_device/internal.h"
#include "cpu_device/record.h"
#include "cpu_device/sgemm.h"
#include <cublas_v2.h>
#include <stdint.h>
#include <stdlib.h>

struct cublasContext {
    int device;
    cudaStream_t stream;
    cublasMath_t mode;
    struct cublasContext *next;
};

static pthread_mutex_t handles_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cublasContext *handles; // that live

// Returns the link to the handle, or the list's last link if no such handle lives. Called with
// handles_lock held.
static struct cublasContext **find(cublasHandle_t handle) {
    struct cublasContext **link = &handles;
    while (*link && *link != handle)
        link = &(*link)->next;
    return link;
}

static int is_live(cublasHandle_t handle) {
    pthread_mutex_lock(&handles_lock);
    int live = *find(handle) != NULL;
    pthread_mutex_unlock(&handles_lock);
    return live;
}

// A product may still run when the program exits. The streams must stop before the library's data
// is freed, so cpu_stop_at_exit comes after the library's own setup.
static void begin(void) {
    cpu_sgemm_begin();
    cpu_stop_at_exit();
}

cublasStatus_t cublasCreate(cublasHandle_t *handle) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!handle)
        return CUBLAS_STATUS_INVALID_VALUE;
    if (cpu_enter())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    pthread_once(&once, begin);
    struct cublasContext *made = cpu_new(sizeof *made);
    made->device = cpu_current_device();
    pthread_mutex_lock(&handles_lock);
    made->next = handles;
    *handle = handles = made;
    pthread_mutex_unlock(&handles_lock);
    return CUBLAS_STATUS_SUCCESS;
}

// As in cuBLAS, the host waits for the device.
cublasStatus_t cublasDestroy(cublasHandle_t handle) {
    pthread_mutex_lock(&handles_lock);
    struct cublasContext **link = find(handle), *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&handles_lock);
    if (!found)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!cpu_enter())
        cpu_drain_device(found->device);
    free(found);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t handle, int *version) {
    (void)handle;
    if (!version)
        return CUBLAS_STATUS_INVALID_VALUE;
    *version = 130000;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    if (!is_live(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t *stream) {
    if (!is_live(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!stream)
        return CUBLAS_STATUS_INVALID_VALUE;
    *stream = handle->stream;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
    if (!is_live(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (mode != CUBLAS_DEFAULT_MATH && mode != CUBLAS_PEDANTIC_MATH &&
        mode != CUBLAS_TF32_TENSOR_OP_MATH)
        return CUBLAS_STATUS_INVALID_VALUE;
    handle->mode = mode;
    return CUBLAS_STATUS_SUCCESS;
}

// Returns the status of a launch. cuBLAS contains a CUDA runtime of its own, so its errors do not
// become the last error of the program.
static cublasStatus_t launched(cudaError_t error) {
    if (error)
        cudaGetLastError();
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

// A matrix, or the first one of a batch.
struct matrix {
    void *data;
    cudaDataType type;
    int ld;
    int tf32;         // 1: round the floats to TF32 first
    long long stride; // elements from a matrix of the batch to the next one
    int mixed;        // 1: the batch has gaps, in which other matrices may lie
};

// Rows or columns per block. The libraries' own blocks divide it.
enum { BLOCK = 32 };

struct gemm {
    int transa, transb, m, n, k, batch;
    float alpha, beta;
    struct matrix a, b, c;
};

static size_t element_bytes(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

// Returns matrix number i of the batch.
static struct matrix matrix_of(const struct matrix *x, int i) {
    struct matrix other = *x;
    other.data = (char *)x->data + (long long)element_bytes(x->type) * x->stride * i;
    return other;
}

// Sets *out to a batch of column-major matrices [rows, cols], with their address for device
// threads, and *span to their bytes, which include the gaps of a mixed batch. Returns 0 if the
// batch is not all inside one allocation, or on another device than the current one.
static int view_matrix(struct matrix *out, struct cpu_span *span, const void *data,
                       cudaDataType type, int ld, int rows, int cols, long long stride, int batch) {
    size_t elements = rows && cols ? (size_t)ld * (size_t)(cols - 1) + (size_t)rows : 0;
    size_t element = element_bytes(type), distance = (size_t)stride * (size_t)(batch - 1);
    size_t bytes = (elements ? elements + distance : 0) * element;
    int device = cpu_device_of(data), mixed = distance > 0 && stride != (long long)ld * cols;
    *out = (struct matrix){cpu_view(data, bytes), type, ld, 0, stride, mixed};
    *span = (struct cpu_span){(uintptr_t)data, (size_t)rows * element, (size_t)ld * element,
                              (size_t)cols * (size_t)(distance > 0 ? batch : 1), 0};
    if (mixed)
        *span = (struct cpu_span){(uintptr_t)data, bytes, bytes, 1, 0};
    return out->data != NULL && (device < 0 || device == cpu_current_device());
}

static float widen(const struct matrix *x, size_t i) {
    if (x->type == CUDA_R_32F)
        return float_to_tf32(((const float *)x->data)[i]);
    uint16_t bits = ((const uint16_t *)x->data)[i];
    return x->type == CUDA_R_16F ? half_to_float(bits) : bfloat16_to_float(bits);
}

static void narrow(const struct matrix *x, size_t i, float value) {
    if (x->type == CUDA_R_32F)
        ((float *)x->data)[i] = value;
    else
        ((uint16_t *)x->data)[i] =
            x->type == CUDA_R_16F ? float_to_half(value) : float_to_bfloat16(value);
}

// Conversion between a matrix of any type and a dense float matrix. The functions below convert the
// columns from..to.
struct conversion {
    struct matrix x;
    float *floats;
    size_t rows;
};

static void run_widen(void *arguments, size_t from, size_t to) {
    struct conversion c = *(struct conversion *)arguments;
    for (size_t col = from; col < to; col++)
        for (size_t row = 0; row < c.rows; row++)
            c.floats[col * c.rows + row] = widen(&c.x, col * (size_t)c.x.ld + row);
}

static void run_narrow(void *arguments, size_t from, size_t to) {
    struct conversion c = *(struct conversion *)arguments;
    for (size_t col = from; col < to; col++)
        for (size_t row = 0; row < c.rows; row++)
            narrow(&c.x, col * (size_t)c.x.ld + row, c.floats[col * c.rows + row]);
}

static void convert(void (*run)(void *, size_t, size_t), const struct matrix *x, float *floats,
                    int rows, int cols) {
    struct conversion c = {*x, floats, (size_t)rows};
    cpu_share(run, &c, (size_t)cols, (1 << 13) / ((size_t)rows + 1) + 1);
}

// Returns the matrix as floats: a converted or rounded copy, which the caller frees, or the matrix
// itself if it needs no conversion.
static float *as_floats(const struct matrix *x, int rows, int cols, int *ld) {
    *ld = x->ld;
    if (x->type == CUDA_R_32F && !x->tf32)
        return x->data;
    *ld = rows ? rows : 1;
    float *copy = malloc(sizeof(float) * (size_t)rows * (size_t)cols);
    if (copy)
        convert(run_widen, x, copy, rows, cols);
    return copy;
}

// Returns the number of pieces of a product, which threads compute at the same time. A piece is a
// block of rows of C, or of columns if C is wide. A library may add numbers in a different order if
// a product has a different size. The pieces therefore do not depend on the number of threads, so a
// product always has the same bits. Each piece is large enough to be worth a thread.
static size_t gemm_pieces(const struct gemm *g) {
    enum { MOST = 16, LEAST_MULTIPLICATIONS = 1 << 23 };
    size_t longer = (size_t)(g->m >= g->n ? g->m : g->n), pieces = 1;
    size_t multiplications = (size_t)g->m * (size_t)g->n * (size_t)g->k;
    while (pieces < MOST && 2 * pieces * BLOCK <= longer &&
           2 * pieces * LEAST_MULTIPLICATIONS <= multiplications)
        pieces *= 2;
    return pieces;
}

// Computes the pieces from..to of the batch. Those of a product follow those of the one before.
static void run_gemm(void *arguments, size_t from, size_t to) {
    struct gemm *g = arguments;
    int by_rows = g->m >= g->n, longer = by_rows ? g->m : g->n;
    int pieces = (int)gemm_pieces(g), blocks = (longer + BLOCK - 1) / BLOCK;
    for (size_t i = from; i < to; i++) {
        int product = (int)(i / (size_t)pieces), piece = (int)(i % (size_t)pieces);
        int first = piece * blocks / pieces * BLOCK, end = (piece + 1) * blocks / pieces * BLOCK;
        int size = (end < longer ? end : longer) - first;
        const float *a = matrix_of(&g->a, product).data, *b = matrix_of(&g->b, product).data;
        float *c = matrix_of(&g->c, product).data;
        if (by_rows) {
            a += (size_t)first * (g->transa ? (size_t)g->a.ld : 1);
            c += first;
        } else {
            b += (size_t)first * (g->transb ? 1 : (size_t)g->b.ld);
            c += (size_t)first * (size_t)g->c.ld;
        }
        cpu_sgemm(g->transa, g->transb, by_rows ? size : g->m, by_rows ? g->n : size, g->k,
                  g->alpha, a, g->a.ld, b, g->b.ld, g->beta, c, g->c.ld);
    }
}

// Products of other types: converts the matrices to floats and back, for one product of the batch
// after the other.
static void run_converted_gemm(void *arguments) {
    struct gemm *batch = arguments;
    for (int i = 0; i < batch->batch; i++) {
        struct gemm g = *batch, f;
        g.a = matrix_of(&batch->a, i);
        g.b = matrix_of(&batch->b, i);
        g.c = matrix_of(&batch->c, i);
        f = g;
        f.a.data = as_floats(&g.a, g.transa ? g.k : g.m, g.transa ? g.m : g.k, &f.a.ld);
        f.b.data = as_floats(&g.b, g.transb ? g.n : g.k, g.transb ? g.k : g.n, &f.b.ld);
        f.c.data = as_floats(&g.c, g.m, g.n, &f.c.ld);
        if (!f.a.data || !f.b.data || !f.c.data)
            abort();
        cpu_share(run_gemm, &f, gemm_pieces(&f), 1);
        if (f.c.data != g.c.data) {
            convert(run_narrow, &g.c, f.c.data, g.m, g.n);
            free(f.c.data);
        }
        free(f.a.data);
        free(f.b.data);
    }
}

static int too_small(int ld, int rows) {
    return ld < (rows > 1 ? rows : 1);
}

// Returns 1 if a matrix of the batch [rows, cols] overlaps the first one.
static int overlaps_first(const struct matrix *x, int rows, int cols, int batch) {
    for (int i = 1; i < batch; i++) {
        long long col = i * x->stride / x->ld, row = i * x->stride % x->ld; // where it begins
        if (col >= cols)
            return 0;
        if (row < rows || (col + 1 < cols && x->ld - row < rows))
            return 1;
    }
    return 0;
}

// Returns the pieces that a thread takes at a time: one, or as many as are worth a thread.
static size_t gemm_grain(const struct gemm *g) {
    enum { LEAST_MULTIPLICATIONS = 1 << 18 };
    return LEAST_MULTIPLICATIONS / ((size_t)g->m * (size_t)g->n * (size_t)g->k + 1) + 1;
}

cublasStatus_t cublasGemmStridedBatchedEx(cublasHandle_t handle, cublasOperation_t transa,
                                          cublasOperation_t transb, int m, int n, int k,
                                          const void *alpha, const void *A, cudaDataType Atype,
                                          int lda, long long int strideA, const void *B,
                                          cudaDataType Btype, int ldb, long long int strideB,
                                          const void *beta, void *C, cudaDataType Ctype, int ldc,
                                          long long int strideC, int batchCount,
                                          cublasComputeType_t computeType, cublasGemmAlgo_t algo) {
    if (!is_live(handle) || cpu_enter())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (handle->device != cpu_current_device())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (algo != CUBLAS_GEMM_DEFAULT || !element_bytes(Atype) || Atype != Btype ||
        (Ctype != Atype && Ctype != CUDA_R_32F) ||
        (computeType != CUBLAS_COMPUTE_32F && computeType != CUBLAS_COMPUTE_32F_FAST_TF32) ||
        strideA < 0 || strideB < 0 || strideC < 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    int a_rows = transa ? k : m, b_rows = transb ? n : k;
    if (m < 0 || n < 0 || k < 0 || batchCount < 0 || !alpha || !beta || (unsigned)transa > 1 ||
        (unsigned)transb > 1 || too_small(lda, a_rows) || too_small(ldb, b_rows) ||
        too_small(ldc, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0 || batchCount == 0)
        return CUBLAS_STATUS_SUCCESS;
    struct gemm g = {
        .transa = transa, .transb = transb, .m = m, .n = n, .k = k, .batch = batchCount};
    g.alpha = *(const float *)alpha;
    g.beta = *(const float *)beta;
    struct cpu_span spans[3];
    if (!view_matrix(&g.a, &spans[0], A, Atype, lda, a_rows, transa ? m : k, strideA, g.batch) ||
        !view_matrix(&g.b, &spans[1], B, Btype, ldb, b_rows, transb ? k : n, strideB, g.batch) ||
        !view_matrix(&g.c, &spans[2], C, Ctype, ldc, m, n, strideC, g.batch))
        return CUBLAS_STATUS_MAPPING_ERROR;
    spans[2].written = 1;
    // Undefined in cuBLAS: C is written while A is read, or twice.
    int overlap[] = {cpu_spans_overlap(&spans[0], &spans[2]) && !g.a.mixed && !g.c.mixed,
                     cpu_spans_overlap(&spans[1], &spans[2]) && !g.b.mixed && !g.c.mixed,
                     overlaps_first(&g.c, m, n, g.batch)};
    if (overlap[0] || overlap[1] || overlap[2])
        return CUBLAS_STATUS_INVALID_VALUE;
    g.a.tf32 = g.b.tf32 = Atype == CUDA_R_32F && (handle->mode == CUBLAS_TF32_TENSOR_OP_MATH ||
                                                  computeType == CUBLAS_COMPUTE_32F_FAST_TF32);
    cpu_needs(Atype != CUDA_R_32F ? CPU_PRODUCT_BF16
              : g.a.tf32          ? CPU_PRODUCT_TF32
                                  : CPU_PRODUCT_FP32,
              "matrix product",
              g.batch * (((double)m * k + (double)k * n) * (double)element_bytes(Atype) +
                         (double)m * n * (double)element_bytes(Ctype)),
              2. * m * n * k * g.batch);
    for (int i = 0; i < 3; i++)
        cpu_uses_span("matrix product", spans[i]);
    return launched(Atype == CUDA_R_32F && !g.a.tf32
                        ? cpu_launch_range(handle->stream, run_gemm, &g, sizeof g,
                                           gemm_pieces(&g) * (size_t)g.batch, gemm_grain(&g))
                        : cpu_launch(handle->stream, run_converted_gemm, &g, sizeof g));
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *A, cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta, void *C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
    return cublasGemmStridedBatchedEx(handle, transa, transb, m, n, k, alpha, A, Atype, lda, 0, B,
                                      Btype, ldb, 0, beta, C, Ctype, ldc, 0, 1, computeType, algo);
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float *alpha,
                           const float *A, int lda, const float *B, int ldb, const float *beta,
                           float *C, int ldc) {
    return cublasGemmEx(handle, transa, transb, m, n, k, alpha, A, CUDA_R_32F, lda, B, CUDA_R_32F,
                        ldb, beta, C, CUDA_R_32F, ldc, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT);
}

#define STATUS(name, text)                                                                         \
    { CUBLAS_STATUS_##name, "CUBLAS_STATUS_" #name, text }
static const struct {
    cublasStatus_t status;
    const char *name, *text;
} status_texts[] = {
    STATUS(SUCCESS, "success"),
    STATUS(NOT_INITIALIZED, "the library was not initialized"),
    STATUS(ALLOC_FAILED, "the resource allocation failed"),
    STATUS(INVALID_VALUE, "an unsupported value or parameter was passed to the function"),
    STATUS(ARCH_MISMATCH, "the function requires an architectural feature absent from the device"),
    STATUS(MAPPING_ERROR, "an access to GPU memory space failed"),
    STATUS(EXECUTION_FAILED, "the function failed to launch on the GPU"),
    STATUS(INTERNAL_ERROR, "an internal operation failed"),
    STATUS(NOT_SUPPORTED, "the requested functionality is not supported"),
};

const char *cublasGetStatusName(cublasStatus_t status) {
    for (size_t i = 0; i < sizeof status_texts / sizeof *status_texts; i++)
        if (status_texts[i].status == status)
            return status_texts[i].name;
    return "unrecognized status";
}

const char *cublasGetStatusString(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_EXECUTION_FAILED && cpu_why_stopped())
        return cpu_why_stopped();
    for (size_t i = 0; i < sizeof status_texts / sizeof *status_texts; i++)
        if (status_texts[i].status == status)
            return status_texts[i].text;
    return "unrecognized status";
}
