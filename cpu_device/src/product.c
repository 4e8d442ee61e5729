// How a matrix product is checked, queued and computed, for cublas.c and cublaslt.c.
#include "product.h"
#include "floats.h"
#include "internal.h"
#include "record.h"
#include "sgemm.h"

// Returns the status of a launch. cuBLAS contains a CUDA runtime of its own, so its errors do not
// become the last error of the program.
static cublasStatus_t launched(cudaError_t error) {
    if (error)
        cudaGetLastError();
    return error ? CUBLAS_STATUS_EXECUTION_FAILED : CUBLAS_STATUS_SUCCESS;
}

size_t cpu_element_bytes(cudaDataType type) {
    return type == CUDA_R_32F ? 4 : type == CUDA_R_16BF ? 2 : 0;
}

struct matrix {
    void *data;
    cudaDataType type;
    int ld;
    int tf32;   // 1: round the floats to TF32 first
    int spread; // 1: copy the columns farther apart first
};

// Rows or columns per block. The libraries' own blocks divide it.
enum { BLOCK = 32 };

struct gemm {
    int transa, transb, m, n, k;
    float alpha, beta;
    struct matrix a, b, c;
    // The epilogue.
    const float *bias; // [m], or NULL
    int relu;
    float *sums;         // [n], of the columns of summed, or NULL
    const float *summed; // column-major [n, k]
    int summed_ld;
    float *parts; // of long sums: a column-major matrix [m, n] for each piece
};

// Sets *out to a column-major matrix [rows, cols], with its address for device threads, and *span
// to its bytes. Returns 0 if it is not all inside one allocation, or on another device than the
// current one.
static int view_matrix(struct matrix *out, struct cpu_span *span, const void *data,
                       cudaDataType type, int ld, int rows, int cols) {
    size_t elements = rows && cols ? (size_t)ld * (size_t)(cols - 1) + (size_t)rows : 0;
    size_t element = cpu_element_bytes(type);
    int device;
    *out = (struct matrix){cpu_view_on(data, elements * element, &device), type, ld, 0, 0};
    *span = (struct cpu_span){(uintptr_t)data, (size_t)rows * element, (size_t)ld * element,
                              (size_t)cols, 0};
    return out->data != NULL && (device < 0 || device == cpu_current_device());
}

static int is_float(const struct matrix *x) {
    return x->type == CUDA_R_32F && !x->tf32;
}

static float widen(const struct matrix *x, size_t i) {
    if (x->type == CUDA_R_32F)
        return float_to_tf32(((const float *)x->data)[i]);
    return bfloat16_to_float(((const uint16_t *)x->data)[i]);
}

static void narrow(const struct matrix *x, size_t i, float value) {
    if (x->type == CUDA_R_32F)
        ((float *)x->data)[i] = value;
    else
        ((uint16_t *)x->data)[i] = float_to_bfloat16(value);
}

// Conversion between a matrix of any type and a float matrix with columns of ld numbers. The
// functions below convert the columns from..to.
struct conversion {
    struct matrix x;
    float *floats;
    size_t rows, ld;
};

static void run_widen(void *arguments, size_t from, size_t to) {
    struct conversion c = *(struct conversion *)arguments;
    for (size_t col = from; col < to; col++) {
        float *column = c.floats + col * c.ld;
        size_t first = col * (size_t)c.x.ld;
        if (is_float(&c.x))
            memcpy(column, (const float *)c.x.data + first, c.rows * sizeof(float));
        else
            for (size_t row = 0; row < c.rows; row++)
                column[row] = widen(&c.x, first + row);
    }
}

static void run_narrow(void *arguments, size_t from, size_t to) {
    struct conversion c = *(struct conversion *)arguments;
    for (size_t col = from; col < to; col++)
        for (size_t row = 0; row < c.rows; row++)
            narrow(&c.x, col * (size_t)c.x.ld + row, c.floats[col * c.ld + row]);
}

static void convert(void (*run)(void *, size_t, size_t), const struct matrix *x, float *floats,
                    int rows, int cols, int ld) {
    struct conversion c = {*x, floats, (size_t)rows, (size_t)ld};
    cpu_share(run, &c, (size_t)cols, (1 << 13) / ((size_t)rows + 1) + 1);
}

// Returns the matrix as floats that the library reads fast: a copy, which the caller frees, or the
// matrix itself if it needs none.
static float *to_floats(const struct matrix *x, int rows, int cols, int *ld) {
    *ld = x->ld;
    if (is_float(x) && !x->spread)
        return x->data;
    *ld = rows ? cpu_sgemm_stride(rows) : 1;
    float *copy = malloc(sizeof(float) * (size_t)*ld * (size_t)cols);
    if (copy)
        convert(run_widen, x, copy, rows, cols, *ld);
    return copy;
}

// Each piece of a product is large enough to be worth a thread.
enum { LEAST_MULTIPLICATIONS = 1 << 23 };

static size_t multiplications(const struct gemm *g) {
    return (size_t)g->m * (size_t)g->n * (size_t)g->k;
}

// Returns 1 if a piece is a part of each sum, because the sums are long, as those over all windows
// of a convolution. Then a piece reads only its part of both matrices, which the kernels before
// have often left in the cache of the same core.
static int is_long(const struct gemm *g) {
    return !g->transa && g->transb && g->k / 4 > (g->m >= g->n ? g->m : g->n) &&
           multiplications(g) >= 2 * LEAST_MULTIPLICATIONS;
}

// Returns how many rows, columns or terms of sums the pieces share.
static int to_share(const struct gemm *g) {
    return is_long(g) ? g->k : g->m >= g->n ? g->m : g->n;
}

// Returns the number of pieces of a product, which threads compute at the same time. A piece is a
// block of rows of C, or of columns if C is wide, or of terms. A library may add numbers in a
// different order if a product has a different size. The pieces therefore do not depend on the
// number of threads, so a product always has the same bits.
static size_t gemm_pieces(const struct gemm *g) {
    enum { MOST = 16 };
    size_t longer = (size_t)to_share(g), pieces = 1;
    while (pieces < MOST && 2 * pieces * BLOCK <= longer &&
           2 * pieces * LEAST_MULTIPLICATIONS <= multiplications(g))
        pieces *= 2;
    return pieces;
}

// Adds the bias to a block of C, while it is in the cache. The ReLU sets negative values and NaN to
// 0, as that of cuBLASLt does.
static void add_bias_to_block(const struct gemm *g, int first_row, int rows, int first_col,
                              int cols) {
    float *c = (float *)g->c.data + (size_t)first_col * (size_t)g->c.ld + first_row;
    const float *bias = g->bias + first_row;
    for (int col = 0; col < cols; col++, c += g->c.ld)
        if (g->relu)
            for (int row = 0; row < rows; row++) {
                float sum = c[row] + bias[row];
                c[row] = sum >= 0.f ? sum : 0.f;
            }
        else
            for (int row = 0; row < rows; row++)
                c[row] += bias[row];
}

// Computes the share of the sums that belongs to this piece. It adds the numbers of each sum in
// order.
static void add_up(const struct gemm *g, int piece, int pieces) {
    int first = g->n * piece / pieces, end = g->n * (piece + 1) / pieces;
    for (int i = first; i < end; i++)
        g->sums[i] = 0.f;
    for (int j = 0; j < g->k; j++) // reads the matrix in the order of its memory
        for (int i = first; i < end; i++)
            g->sums[i] += g->summed[(size_t)j * (size_t)g->summed_ld + (size_t)i];
}

// Computes the pieces from..to.
static void run_gemm(void *arguments, size_t from, size_t to) {
    struct gemm *g = arguments;
    int by_terms = is_long(g), by_rows = !by_terms && g->m >= g->n, longer = to_share(g);
    int pieces = (int)gemm_pieces(g), blocks = (longer + BLOCK - 1) / BLOCK;
    for (size_t i = from; i < to; i++) {
        int piece = (int)i;
        int first = piece * blocks / pieces * BLOCK, end = (piece + 1) * blocks / pieces * BLOCK;
        int size = (end < longer ? end : longer) - first;
        int m = g->m, n = g->n, k = g->k, ldc = g->c.ld;
        const float *a = g->a.data, *b = g->b.data;
        float *c = g->c.data;
        if (by_terms) {
            a += (size_t)first * (size_t)g->a.ld;
            b += (size_t)first * (size_t)g->b.ld;
            c = g->parts + i * (size_t)m * (size_t)n;
            k = size;
            ldc = m;
        } else if (by_rows) {
            a += (size_t)first * (g->transa ? (size_t)g->a.ld : 1);
            c += first;
            m = size;
        } else {
            b += (size_t)first * (g->transb ? 1 : (size_t)g->b.ld);
            c += (size_t)first * (size_t)ldc;
            n = size;
        }
        cpu_sgemm(g->transa, g->transb, m, n, k, g->alpha, a, g->a.ld, b, g->b.ld,
                  by_terms ? 0.f : g->beta, c, ldc);
        if (g->bias && !by_terms)
            add_bias_to_block(g, by_rows ? first : 0, m, by_rows ? 0 : first, n);
        if (g->sums)
            add_up(g, piece, pieces);
    }
}

// Adds the parts of the sums in the columns from..to of C.
static void add_parts(void *arguments, size_t from, size_t to) {
    struct gemm *g = arguments;
    size_t m = (size_t)g->m, pieces = gemm_pieces(g);
    for (size_t col = from; col < to; col++) {
        float *c = (float *)g->c.data + col * (size_t)g->c.ld;
        for (size_t row = 0; row < m; row++)
            c[row] = g->beta == 0.f ? 0.f : g->beta * c[row];
        for (size_t piece = 0; piece < pieces; piece++) {
            const float *part = g->parts + (piece * (size_t)g->n + col) * m;
            for (size_t row = 0; row < m; row++)
                c[row] += part[row];
        }
        if (g->bias)
            add_bias_to_block(g, 0, g->m, (int)col, 1);
    }
}

// A product that needs memory: converts the matrices to floats and back, and adds parts of sums.
static void run_gemm_with_memory(void *arguments) {
    struct gemm g = *(struct gemm *)arguments, f = g;
    f.a.data = to_floats(&g.a, g.transa ? g.k : g.m, g.transa ? g.m : g.k, &f.a.ld);
    f.b.data = to_floats(&g.b, g.transb ? g.n : g.k, g.transb ? g.k : g.n, &f.b.ld);
    f.c.data = to_floats(&g.c, g.m, g.n, &f.c.ld);
    if (!f.a.data || !f.b.data || !f.c.data)
        abort();
    // Sums add the numbers before they are rounded to TF32.
    if (g.sums && g.b.type != CUDA_R_32F) {
        f.summed = f.b.data;
        f.summed_ld = f.b.ld;
    }
    size_t pieces = gemm_pieces(&f), c_size = (size_t)g.m * (size_t)g.n;
    if (is_long(&f) && !(f.parts = malloc(sizeof(float) * pieces * c_size)))
        abort();
    cpu_share(run_gemm, &f, pieces, 1);
    if (f.parts)
        cpu_share(add_parts, &f, (size_t)g.n, (1 << 13) / (size_t)g.m + 1);
    free(f.parts);
    if (f.c.data != g.c.data) {
        convert(run_narrow, &g.c, f.c.data, g.m, g.n, f.c.ld);
        free(f.c.data);
    }
    if (f.a.data != g.a.data)
        free(f.a.data);
    if (f.b.data != g.b.data)
        free(f.b.data);
}

// Returns 1 if the library is faster with a copy of the matrix whose columns are farther apart. The
// matrix has k columns, so each sum takes a number from every column. Each number must be used in
// enough sums to be worth the copy.
static int is_worth_a_copy(const struct matrix *x, int uses) {
    enum { LEAST_USES = 64 };
    return cpu_sgemm_stride(x->ld) != x->ld && uses >= LEAST_USES;
}

// Sets the epilogue of g, and the spans of its arrays. Returns 0 if an array is not all inside one
// allocation, or on another device than the current one.
static int set_epilogue(struct gemm *g, const struct cpu_product *p, struct cpu_span spans[2]) {
    int device = cpu_current_device();
    size_t bias_bytes = p->bias ? (size_t)p->m * sizeof(float) : 0;
    size_t sum_bytes = p->sums ? (size_t)p->n * sizeof(float) : 0;
    spans[0] = (struct cpu_span){(uintptr_t)p->bias, bias_bytes, bias_bytes, 1, 0};
    spans[1] = (struct cpu_span){(uintptr_t)p->sums, sum_bytes, sum_bytes, 1, 1};
    if (p->bias)
        g->bias = cpu_view(p->bias, bias_bytes);
    g->relu = p->relu;
    if (p->sums) {
        g->sums = cpu_view(p->sums, sum_bytes);
        g->summed = g->b.data;
        g->summed_ld = g->b.ld;
    }
    return (!p->bias || (g->bias && cpu_device_of(p->bias) == device)) &&
           (!p->sums || (g->sums && cpu_device_of(p->sums) == device));
}

static const char *name_of(const struct cpu_product *p) {
    return p->sums   ? "matrix product + sums"
           : p->relu ? "matrix product + bias + ReLU"
           : p->bias ? "matrix product + bias"
                     : "matrix product";
}

// A GPU computes C in tiles of this many rows and columns. A tile at an edge of C takes as long as
// a whole one.
enum { TILE = 128 };

static double in_tiles(int count) {
    return (count + TILE - 1) / TILE * (double)TILE;
}

static void note_cost(const struct cpu_product *p) {
    double in_bytes = (double)cpu_element_bytes(p->in),
           out_bytes = (double)cpu_element_bytes(p->out);
    double m = p->m, n = p->n, k = p->k, flops = 2 * m * n * k;
    int is_vector = p->m == 1 || p->n == 1; // each number is used once, so there are no tiles
    cpu_needs((struct cpu_cost){
        .kind = p->in != CUDA_R_32F ? CPU_PRODUCT_BF16
                : p->tf32           ? CPU_PRODUCT_TF32
                                    : CPU_PRODUCT_FP32,
        .name = name_of(p),
        .bytes = (m * k + k * n) * in_bytes + m * n * out_bytes,
        .flops = flops,
        .tile_flops = is_vector ? flops : 2 * in_tiles(p->m) * in_tiles(p->n) * k,
    });
}

cublasStatus_t cpu_queue_product(const struct cpu_product *p) {
    int a_rows = p->transa ? p->k : p->m, a_cols = p->transa ? p->m : p->k;
    int b_rows = p->transb ? p->n : p->k, b_cols = p->transb ? p->k : p->n;
    struct gemm g = {.transa = p->transa,
                     .transb = p->transb,
                     .m = p->m,
                     .n = p->n,
                     .k = p->k,
                     .alpha = p->alpha,
                     .beta = p->beta};
    enum { A, B, C, BIAS, SUMS, SPANS };
    struct cpu_span spans[SPANS];
    if (!view_matrix(&g.a, &spans[A], p->a, p->in, p->lda, a_rows, a_cols) ||
        !view_matrix(&g.b, &spans[B], p->b, p->in, p->ldb, b_rows, b_cols) ||
        !view_matrix(&g.c, &spans[C], p->c, p->out, p->ldc, p->m, p->n) ||
        !set_epilogue(&g, p, &spans[BIAS]))
        return CUBLAS_STATUS_MAPPING_ERROR;
    spans[C].written = 1;
    // Undefined in cuBLAS: an array is written while it is read, or twice.
    int overlap = cpu_spans_overlap(&spans[A], &spans[C]) ||
                  cpu_spans_overlap(&spans[B], &spans[C]) ||
                  (p->bias && cpu_spans_overlap(&spans[BIAS], &spans[C]));
    for (int i = A; i <= C && p->sums; i++)
        overlap |= cpu_spans_overlap(&spans[i], &spans[SUMS]);
    if (overlap)
        return CUBLAS_STATUS_INVALID_VALUE;
    g.a.tf32 = g.b.tf32 = p->tf32;
    g.a.spread = !p->transa && is_worth_a_copy(&g.a, p->n);
    g.b.spread = p->transb && is_worth_a_copy(&g.b, p->m);
    note_cost(p);
    for (int i = 0; i < SPANS; i++)
        cpu_uses_span(name_of(p), spans[i]);
    int needs_memory = !is_float(&g.a) || g.a.spread || g.b.spread || is_long(&g);
    return launched(needs_memory
                        ? cpu_launch(p->stream, run_gemm_with_memory, &g, sizeof g)
                        : cpu_launch_range(p->stream, run_gemm, &g, sizeof g, gemm_pieces(&g), 1));
}
