// The functions of cuBLAS. They check their arguments as cuBLAS does, and queue the call on the
// handle's stream (product.h).
#include "internal.h"
#include "product.h"
#include "sgemm.h"
#include <cublas_v2.h>

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
static struct cublasContext **find(const void *handle) {
    struct cublasContext **link = &handles;
    while (*link && *link != handle)
        link = &(*link)->next;
    return link;
}

int cpu_device_of_handle(const void *handle) {
    pthread_mutex_lock(&handles_lock);
    struct cublasContext *found = *find(handle);
    int device = found ? found->device : -1;
    pthread_mutex_unlock(&handles_lock);
    return device;
}

static int is_live(cublasHandle_t handle) {
    return cpu_device_of_handle(handle) >= 0;
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
    if (cpu_enter() || cpu_capture_forbids(CPU_UNSAFE_CALL, NULL)) // it allocates
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

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
    if (!is_live(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    handle->stream = stream;
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

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t *mode) {
    if (!is_live(handle))
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!mode)
        return CUBLAS_STATUS_INVALID_VALUE;
    *mode = handle->mode;
    return CUBLAS_STATUS_SUCCESS;
}

static int too_small(int ld, int rows) {
    return ld < (rows > 1 ? rows : 1);
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void *alpha,
                            const void *A, cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta, void *C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
    if (!is_live(handle) || cpu_enter())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (handle->device != cpu_current_device())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    if (algo != CUBLAS_GEMM_DEFAULT || !cpu_element_bytes(Atype) || Atype != Btype ||
        (Ctype != Atype && Ctype != CUDA_R_32F) ||
        (computeType != CUBLAS_COMPUTE_32F && computeType != CUBLAS_COMPUTE_32F_FAST_TF32))
        return CUBLAS_STATUS_NOT_SUPPORTED;
    if (m < 0 || n < 0 || k < 0 || !alpha || !beta || (unsigned)transa > CUBLAS_OP_C ||
        (unsigned)transb > CUBLAS_OP_C || too_small(lda, transa ? k : m) ||
        too_small(ldb, transb ? n : k) || too_small(ldc, m))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (m == 0 || n == 0)
        return CUBLAS_STATUS_SUCCESS;
    if (!C)
        return CUBLAS_STATUS_INVALID_VALUE;
    struct cpu_product p = {handle->stream, transa, transb, m, n, k};
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    p.in = Atype;
    p.out = Ctype;
    p.tf32 = Atype == CUDA_R_32F && (handle->mode == CUBLAS_TF32_TENSOR_OP_MATH ||
                                     computeType == CUBLAS_COMPUTE_32F_FAST_TF32);
    p.a = A;
    p.b = B;
    p.c = C;
    p.lda = lda;
    p.ldb = ldb;
    p.ldc = ldc;
    return cpu_queue_product(&p);
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
static const struct status {
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
enum { STATUSES = sizeof status_texts / sizeof *status_texts };

static const struct status *find_status(cublasStatus_t status) {
    static const struct status unknown = {0, "unrecognized status", "unrecognized status"};
    for (int i = 0; i < STATUSES; i++)
        if (status_texts[i].status == status)
            return &status_texts[i];
    return &unknown;
}

const char *cublasGetStatusName(cublasStatus_t status) {
    return find_status(status)->name;
}

const char *cublasGetStatusString(cublasStatus_t status) {
    if (status == CUBLAS_STATUS_EXECUTION_FAILED && cpu_why_stopped())
        return cpu_why_stopped();
    return find_status(status)->text;
}
