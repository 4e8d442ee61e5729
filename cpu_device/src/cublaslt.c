// The functions of cuBLASLt. They check the descriptors, and queue the product on the stream of the
// call (product.h).
#include "internal.h"
#include "product.h"
#include <cublasLt.h>
#include <limits.h>

// What the program's descriptors point to.
struct description {
    cublasComputeType_t compute;
    cudaDataType scale;
    int32_t transa, transb;
    uint32_t epilogue;
    void *bias;
};
struct layout {
    cudaDataType type;
    uint64_t rows, cols;
    int64_t ld;
};
struct preference {
    uint32_t alignment[4]; // of A, B, C and D, in bytes
};

// What an algorithm (cublasLtMatmulAlgo_t) was chosen for.
enum { ALIGNMENTS = 5 }; // of A, B, C, D and the bias
struct choice {
    uint32_t magic, epilogue;
    uint16_t trans, type, out, compute;
    uint32_t alignment[ALIGNMENTS];
};
_Static_assert(sizeof(struct choice) <= sizeof(cublasLtMatmulAlgo_t), "it is stored there");

// Kernels load 16 bytes at a time where the promised alignment allows it. No kernel needs more.
enum { MAGIC = 0x4c746d6d, WIDEST_LOAD = 16 };

// Stores a new descriptor with this content.
static cublasStatus_t create(void **descriptor, const void *content, size_t bytes) {
    if (!descriptor)
        return CUBLAS_STATUS_INVALID_VALUE;
    *descriptor = memcpy(cpu_new(bytes), content, bytes);
    return CUBLAS_STATUS_SUCCESS;
}

static cublasStatus_t destroy(void *descriptor) {
    free(descriptor);
    return CUBLAS_STATUS_SUCCESS;
}

// Sets an attribute, if the value has the size of the attribute.
static cublasStatus_t set(void *attribute, size_t size, const void *value, size_t value_size) {
    if (!attribute || !value || size != value_size)
        return CUBLAS_STATUS_INVALID_VALUE;
    memcpy(attribute, value, size);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *descriptor,
                                        cublasComputeType_t compute, cudaDataType scale) {
    struct description d = {compute, scale, CUBLAS_OP_N, CUBLAS_OP_N, CUBLASLT_EPILOGUE_DEFAULT, 0};
    return create((void **)descriptor, &d, sizeof d);
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t descriptor) {
    return destroy(descriptor);
}

cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t descriptor,
                                              cublasLtMatmulDescAttributes_t attribute,
                                              const void *value, size_t size) {
    struct description *d = (void *)descriptor;
    if (!d)
        return CUBLAS_STATUS_INVALID_VALUE;
    switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
        return set(&d->transa, sizeof d->transa, value, size);
    case CUBLASLT_MATMUL_DESC_TRANSB:
        return set(&d->transb, sizeof d->transb, value, size);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
        return set(&d->epilogue, sizeof d->epilogue, value, size);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
        return set(&d->bias, sizeof d->bias, value, size);
    }
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *descriptor, cudaDataType type,
                                          uint64_t rows, uint64_t cols, int64_t ld) {
    struct layout l = {type, rows, cols, ld};
    return create((void **)descriptor, &l, sizeof l);
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t descriptor) {
    return destroy(descriptor);
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *descriptor) {
    struct preference p = {{256, 256, 256, 256}};
    return create((void **)descriptor, &p, sizeof p);
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t descriptor) {
    return destroy(descriptor);
}

cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t descriptor,
                                                    cublasLtMatmulPreferenceAttributes_t attribute,
                                                    const void *value, size_t size) {
    struct preference *p = (void *)descriptor;
    int matrix = (int)attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (!p)
        return CUBLAS_STATUS_INVALID_VALUE;
    return set(matrix >= 0 && matrix < 4 ? &p->alignment[matrix] : NULL, sizeof *p->alignment,
               value, size);
}

static int valid_layout(const struct layout *l, int rows, int cols) {
    return l->rows == (uint64_t)rows && l->cols == (uint64_t)cols && l->ld >= rows &&
           l->ld <= INT_MAX;
}

static int supported_types(const struct description *d, const struct layout *a,
                           const struct layout *b, const struct layout *c) {
    int with_epilogue = d->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    return (d->compute == CUBLAS_COMPUTE_32F || d->compute == CUBLAS_COMPUTE_32F_FAST_TF32) &&
           d->scale == CUDA_R_32F && cpu_element_bytes(a->type) && a->type == b->type &&
           (c->type == CUDA_R_32F || (c->type == a->type && !with_epilogue));
}

static int supported_epilogue(const struct description *d) {
    switch (d->epilogue) {
    case CUBLASLT_EPILOGUE_DEFAULT:
    case CUBLASLT_EPILOGUE_BIAS:
    case CUBLASLT_EPILOGUE_RELU_BIAS:
        return 1;
    case CUBLASLT_EPILOGUE_BGRADB:
        return d->transb == CUBLAS_OP_T;
    }
    return 0;
}

// Describes the product, apart from its arrays, scalars and stream.
static cublasStatus_t describe(struct cpu_product *p, const struct description *d,
                               const struct layout *a, const struct layout *b,
                               const struct layout *c, const struct layout *out) {
    if (!d || !a || !b || !c || !out || (uint32_t)d->transa > CUBLAS_OP_C ||
        (uint32_t)d->transb > CUBLAS_OP_C)
        return CUBLAS_STATUS_INVALID_VALUE;
    uint64_t k = d->transa ? a->rows : a->cols;
    if (!out->rows || !out->cols || !k || out->rows > INT_MAX || out->cols > INT_MAX || k > INT_MAX)
        return CUBLAS_STATUS_INVALID_VALUE;
    int m = (int)out->rows, n = (int)out->cols, depth = (int)k;
    if (!valid_layout(a, d->transa ? depth : m, d->transa ? m : depth) ||
        !valid_layout(b, d->transb ? n : depth, d->transb ? depth : n) || !valid_layout(c, m, n) ||
        !valid_layout(out, m, n))
        return CUBLAS_STATUS_INVALID_VALUE;
    if (!supported_types(d, a, b, out) || !supported_epilogue(d) || c->ld != out->ld ||
        c->type != out->type)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    *p = (struct cpu_product){NULL, d->transa, d->transb, m, n, depth};
    p->in = a->type;
    p->out = out->type;
    p->tf32 = a->type == CUDA_R_32F && d->compute == CUBLAS_COMPUTE_32F_FAST_TF32;
    p->lda = (int)a->ld;
    p->ldb = (int)b->ld;
    p->ldc = (int)out->ld;
    return CUBLAS_STATUS_SUCCESS;
}

// Returns the largest power of two, up to 256, that divides the address.
static uint32_t alignment_of(const void *pointer) {
    uint32_t alignment = 256;
    while ((uintptr_t)pointer % alignment)
        alignment /= 2;
    return alignment;
}

static struct choice choose(const struct description *d, const struct cpu_product *p,
                            const uint32_t promised[4]) {
    struct choice c = {MAGIC,
                       d->epilogue,
                       (uint16_t)(3 * d->transa + d->transb),
                       (uint16_t)p->in,
                       (uint16_t)p->out,
                       (uint16_t)d->compute,
                       {0}};
    memcpy(c.alignment, promised, 4 * sizeof *promised);
    c.alignment[4] = alignment_of(d->bias);
    return c;
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t handle,
                                              cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t out,
                                              cublasLtMatmulPreference_t preference, int requested,
                                              cublasLtMatmulHeuristicResult_t results[],
                                              int *returned) {
    const struct description *d = (const void *)operation;
    const struct preference *preferred = (const void *)preference;
    struct cpu_product product;
    if (cpu_device_of_handle(handle) < 0)
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (!preferred || requested <= 0 || !results || !returned)
        return CUBLAS_STATUS_INVALID_VALUE;
    *returned = 0;
    cublasStatus_t status =
        describe(&product, d, (const void *)a, (const void *)b, (const void *)c, (const void *)out);
    if (status)
        return status;
    if (alignment_of(d->bias) < WIDEST_LOAD)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    struct choice choice = choose(d, &product, preferred->alignment);
    memset(&results[0], 0, sizeof results[0]);
    memcpy(&results[0].algo, &choice, sizeof choice);
    results[0].wavesCount = 1;
    *returned = 1;
    return CUBLAS_STATUS_SUCCESS;
}

// Returns 1 if the algorithm was chosen for such a product with arrays that are aligned like these.
// The kernels of a GPU would otherwise load or store at an address that is not a multiple of the
// loaded bytes.
static int fits(const struct choice *c, const struct description *d, const struct cpu_product *p) {
    const void *arrays[ALIGNMENTS] = {p->a, p->b, p->c, p->c, d->bias};
    struct choice same = choose(d, p, c->alignment);
    same.alignment[4] = c->alignment[4];
    if (memcmp(c, &same, sizeof same) != 0)
        return 0;
    for (int i = 0; i < ALIGNMENTS; i++)
        if ((uintptr_t)arrays[i] % (c->alignment[i] < WIDEST_LOAD ? c->alignment[i] : WIDEST_LOAD))
            return 0;
    return 1;
}

static void set_epilogue(struct cpu_product *p, const struct description *d) {
    p->relu = d->epilogue == CUBLASLT_EPILOGUE_RELU_BIAS;
    if (p->relu || d->epilogue == CUBLASLT_EPILOGUE_BIAS)
        p->bias = d->bias;
    else if (d->epilogue != CUBLASLT_EPILOGUE_DEFAULT)
        p->sums = d->bias;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                              const void *alpha, const void *a, cublasLtMatrixLayout_t a_layout,
                              const void *b, cublasLtMatrixLayout_t b_layout, const void *beta,
                              const void *c, cublasLtMatrixLayout_t c_layout, void *out,
                              cublasLtMatrixLayout_t out_layout, const cublasLtMatmulAlgo_t *algo,
                              void *workspace, size_t workspace_bytes, cudaStream_t stream) {
    const struct description *d = (const void *)operation;
    const struct preference defaults = {{256, 256, 256, 256}};
    struct cpu_product p;
    int device = cpu_device_of_handle(handle);
    if (device < 0 || cpu_enter())
        return CUBLAS_STATUS_NOT_INITIALIZED;
    if (device != cpu_current_device())
        return CUBLAS_STATUS_EXECUTION_FAILED;
    cublasStatus_t status = describe(&p, d, (const void *)a_layout, (const void *)b_layout,
                                     (const void *)c_layout, (const void *)out_layout);
    if (status)
        return status;
    if (c != out || workspace || workspace_bytes)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    p.a = a;
    p.b = b;
    p.c = out;
    struct choice chosen = choose(d, &p, defaults.alignment);
    if (algo)
        memcpy(&chosen, algo, sizeof chosen);
    int uses_bias = d->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    if (!alpha || !beta || uses_bias != (d->bias != NULL) || alignment_of(d->bias) < WIDEST_LOAD ||
        !fits(&chosen, d, &p))
        return CUBLAS_STATUS_INVALID_VALUE;
    p.stream = stream;
    p.alpha = *(const float *)alpha;
    p.beta = *(const float *)beta;
    set_epilogue(&p, d);
    return cpu_queue_product(&p);
}
