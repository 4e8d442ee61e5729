// The kernels for sequences of tokens, for the CPU device. They are plain loops, and the reference
// for sequence_kernels.cu.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/sequence_kernels.h"
#include <math.h>
#include <string.h>

struct look_up {
    const float *tokens, *table;
    float *y;
    size_t width;
};

static void run_look_up(void *arguments, size_t from, size_t to) {
    struct look_up a = *(struct look_up *)arguments;
    for (size_t row = from; row < to; row++)
        memcpy(a.y + row * a.width, a.table + (size_t)a.tokens[row] * a.width,
               a.width * sizeof *a.y);
}

void look_up(const float *tokens, const float *table, float *y, int rows, int width, int entries,
             cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)width;
    struct look_up a = {READS(tokens, n), READS(table, entries * m), WRITES(y, n * m), m};
    LAUNCH(stream, run_look_up, a, n, rows_per_grain(m));
}

struct look_up_backward {
    const float *tokens, *dy;
    float *dtable;
    size_t rows, width;
};

// Computes the entries from..to of the table.
static void run_look_up_backward(void *arguments, size_t from, size_t to) {
    struct look_up_backward a = *(struct look_up_backward *)arguments;
    for (size_t i = from * a.width; i < to * a.width; i++)
        a.dtable[i] = 0;
    for (size_t row = 0; row < a.rows; row++) {
        size_t entry = (size_t)a.tokens[row];
        if (entry < from || entry >= to)
            continue;
        float *sums = a.dtable + entry * a.width;
        const float *dy = a.dy + row * a.width;
        for (size_t c = 0; c < a.width; c++)
            sums[c] += dy[c];
    }
}

void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)width;
    struct look_up_backward a = {READS(tokens, n), READS(dy, n * m), WRITES(dtable, entries * m), n,
                                 m};
    size_t threads = (size_t)entries * ((m + 255) / 256) * 256; // of a GPU
    COMPUTES(threads, n);
    cpu_waits(threads, n / 512 + n / 40); // if a fifth of the tokens are the same; 8 rows at a time
    LAUNCH(stream, run_look_up_backward, a, (size_t)entries, 64);
}

// Returns e^x with an error of at most two units in the last place, for x up to 88. The compiler
// vectorizes a loop over it, but not one over expf. e^x = 2^n e^r with n = x / ln 2, rounded, and a
// polynomial for e^r (its Taylor series; r is at most ln(2) / 2). ln 2 is the sum of two floats, so
// that r is exact.
static inline float exponential(float x) {
    const float shift = 0x1.8p23f; // the sum with it is rounded, and ends with the bits of n
    float clamped = x < -87.f ? -87.f : x > 88.f ? 88.f : x;
    union {
        uint32_t bits;
        float value;
    } power = {.value = clamped * 1.44269504f + shift};
    float n = power.value - shift;
    float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;
    float p =
        1 + r * (1 + r * (1 / 2.f +
                          r * (1 / 6.f +
                               r * (1 / 24.f + r * (1 / 120.f + r * (1 / 720.f + r / 5040.f))))));
    power.bits = (power.bits + 127) << 23; // of 2^n
    return p * power.value;
}

static inline float sigmoid(float x) {
    return 1 / (1 + exponential(-x));
}

#include "zoo/kernels/activation_formulas.h"

struct heads_copy {
    const float *x;
    float *y;
    size_t parts, first, count;
    struct heads h;
};

// Returns where token 0 of matrix i lies in the batch.
static size_t in_batch(const struct heads_copy *a, size_t i) {
    size_t heads = (size_t)a->h.heads, width = (size_t)a->h.width, tokens = (size_t)a->h.tokens;
    size_t part = i / a->count, head = a->first + i % a->count;
    return ((head / heads * tokens * a->parts + part) * heads + head % heads) * width;
}

// Copies the matrices from..to.
static void run_split_heads(void *arguments, size_t from, size_t to) {
    struct heads_copy a = *(struct heads_copy *)arguments;
    size_t width = (size_t)a.h.width, tokens = (size_t)a.h.tokens;
    for (size_t i = from; i < to; i++)
        for (size_t t = 0; t < tokens; t++)
            memcpy(a.y + (i * tokens + t) * width,
                   a.x + in_batch(&a, i) + t * a.parts * (size_t)a.h.heads * width,
                   width * sizeof *a.y);
}

// Sets *a to copy heads between the batch and their matrices, and returns where their samples begin
// in the batch. Only the kernel knows which values of these samples it uses, so the modelled time
// comes from the matrices alone, which the callers name twice.
static const float *begin_copy(struct heads_copy *a, const char *kernel, const float *batch,
                               int parts, size_t first, int count, struct heads h, int written) {
    size_t heads = (size_t)h.heads, begin = first / heads;
    size_t end = (first + (size_t)count + heads - 1) / heads;
    size_t sample = (size_t)parts * (size_t)h.tokens * heads * (size_t)h.width;
    *a = (struct heads_copy){.parts = (size_t)parts, first % heads, (size_t)count, h};
    batch += begin * sample;
    cpu_may_use(kernel, batch, count > 0 ? (end - begin) * sample * sizeof *batch : 0, written);
    return batch;
}

void split_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream) {
    size_t matrices = (size_t)parts * (size_t)count, size = (size_t)h.tokens * (size_t)h.width;
    struct heads_copy a;
    x = begin_copy(&a, __func__, x, parts, first, count, h, 0);
    a.x = READS(x, count > 0);
    a.y = UPDATES(y, matrices * size);
    COMPUTES(matrices * size, 1);
    LAUNCH(stream, run_split_heads, a, matrices, rows_per_grain(size));
}

static void run_merge_heads(void *arguments, size_t from, size_t to) {
    struct heads_copy a = *(struct heads_copy *)arguments;
    size_t width = (size_t)a.h.width, tokens = (size_t)a.h.tokens;
    for (size_t i = from; i < to; i++)
        for (size_t t = 0; t < tokens; t++)
            memcpy(a.y + in_batch(&a, i) + t * a.parts * (size_t)a.h.heads * width,
                   a.x + (i * tokens + t) * width, width * sizeof *a.y);
}

void merge_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream) {
    size_t matrices = (size_t)parts * (size_t)count, size = (size_t)h.tokens * (size_t)h.width;
    struct heads_copy a;
    y = (float *)begin_copy(&a, __func__, y, parts, first, count, h, 1);
    a.x = (READS(x, matrices * size), READS(x, matrices * size));
    a.y = WRITES(y, count > 0);
    COMPUTES(matrices * size, 1);
    LAUNCH(stream, run_merge_heads, a, matrices, rows_per_grain(size));
}

struct softmax {
    float *matrices; // or their gradients
    const float *p;
    size_t tokens;
    float scale;
    size_t queries;
};

// Computes the rows from..to of all matrices.
static void run_causal_softmax(void *arguments, size_t from, size_t to) {
    struct softmax a = *(struct softmax *)arguments;
    for (size_t r = from; r < to; r++) {
        float *row = a.matrices + r * a.tokens, largest = row[0], sum = 0.f;
        size_t seen = a.tokens - a.queries + r % a.queries + 1;
        for (size_t i = 1; i < seen; i++)
            largest = row[i] > largest ? row[i] : largest;
        for (size_t i = 0; i < seen; i++)
            row[i] = exponential((row[i] - largest) * a.scale);
        for (size_t i = 0; i < seen; i++)
            sum += row[i];
        for (size_t i = 0; i < seen; i++)
            row[i] *= 1.f / sum;
        memset(row + seen, 0, (a.tokens - seen) * sizeof *row);
    }
}

void causal_softmax(float *matrices, size_t count, int queries, int tokens, float scale,
                    cudaStream_t stream) {
    size_t width = (size_t)tokens, rows = count * (size_t)queries;
    struct softmax a = {UPDATES(matrices, rows * width), NULL, width, scale, (size_t)queries};
    COMPUTES(rows * width, 1);
    LAUNCH(stream, run_causal_softmax, a, rows, rows_per_grain(width));
}

static void run_causal_softmax_backward(void *arguments, size_t from, size_t to) {
    struct softmax a = *(struct softmax *)arguments;
    for (size_t r = from; r < to; r++) {
        float *row = a.matrices + r * a.tokens, sum = 0.f;
        const float *p = a.p + r * a.tokens;
        size_t seen = r % a.tokens + 1;
        for (size_t i = 0; i < seen; i++)
            sum += p[i] * row[i];
        for (size_t i = 0; i < seen; i++)
            row[i] = p[i] * (row[i] - sum) * a.scale;
        memset(row + seen, 0, (a.tokens - seen) * sizeof *row);
    }
}

void causal_softmax_backward(const float *p, float *dp, size_t count, int tokens, float scale,
                             cudaStream_t stream) {
    size_t width = (size_t)tokens, rows = count * width;
    struct softmax a = {UPDATES(dp, rows * width), READS(p, rows * width), width, scale};
    LAUNCH(stream, run_causal_softmax_backward, a, rows, rows_per_grain(width));
}
