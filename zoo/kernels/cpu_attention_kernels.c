// The kernels of attention, for the CPU device: the version to read first, because
// attention_kernels.cu does the same in the order that tensor cores want. A thread computes a head.
// It has the scores of a block as [keys, queries], because the loops over queries are vectors then.
#include "common/base/minmax.h"
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/kernels/cpu_exponential.h"
#include "zoo/kernels/values.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, LANES = 8 };

struct attending {
    struct attention_inputs in;
    const void *y, *dy;
    void *to_y, *dq, *dk, *dv;
    float *logs;
};

// The arrays of a thread, which are floats. Rows after the last one, and columns after the width,
// are 0.
struct blocks {
    size_t width;                                             // of a row, a multiple of LANES
    float *queries, *dy, *transposed_queries, *transposed_dy; // [BLOCK, width], [width, BLOCK]
    float *keys, *values;                                     // [BLOCK, width]
    float *scores, *dscores;                                  // [BLOCK of keys, BLOCK of queries]
    float *outputs;                                           // [BLOCK, width]: of y, or dq
    float *dkeys, *dvalues;                                   // [all keys, width]
    float largest[BLOCK], sum[BLOCK], deltas[BLOCK];          // of each query
};

typedef float lanes __attribute__((vector_size(LANES * sizeof(float)), aligned(4), may_alias));

// c[i, j] += the sum over t of a(i, t) * b[t, j], where a(i, t) = a[i * a_row + t * a_term]. Rows
// and columns are multiples of LANES. LANES vectors hold a part of c.
ALSO_AVX2 static void add_product(size_t rows, size_t columns, size_t terms, const float *a,
                                  size_t a_row, size_t a_term, const float *b, float *c) {
    for (size_t i = 0; i < rows; i += LANES)
        for (size_t j = 0; j < columns; j += LANES) {
            lanes sums[LANES];
            for (int r = 0; r < LANES; r++)
                sums[r] = *(lanes *)(c + (i + r) * columns + j);
            for (size_t t = 0; t < terms; t++) {
                lanes row = *(const lanes *)(b + t * columns + j);
                for (int r = 0; r < LANES; r++)
                    sums[r] += a[(i + r) * a_row + t * a_term] * row;
            }
            for (int r = 0; r < LANES; r++)
                *(lanes *)(c + (i + r) * columns + j) = sums[r];
        }
}

// Copies count rows of width values, pitch values apart, to a block. Its other columns stay 0.
ALSO_AVX2 static void read_rows(const struct attention_inputs *a, const void *from, size_t at,
                                size_t pitch, size_t count, size_t columns, float *block) {
    size_t width = (size_t)a->width;
    for (size_t i = 0; i < count; i++, at += pitch)
        if (a->type == CUDA_R_32F)
            memcpy(block + i * columns, (const float *)from + at, width * sizeof *block);
        else
            for (size_t d = 0; d < width; d++)
                block[i * columns + d] = float_of(((const uint16_t *)from)[at + d]);
    memset(block + count * columns, 0, (BLOCK - count) * columns * sizeof *block);
}

// The way back.
ALSO_AVX2 static void write_rows(const struct attention_inputs *a, void *to, size_t at,
                                 size_t pitch, size_t count, size_t columns, const float *block) {
    size_t width = (size_t)a->width;
    for (size_t i = 0; i < count; i++, at += pitch)
        for (size_t d = 0; d < width; d++)
            set_value(to, a->type, at + d, block[i * columns + d]);
}

// Rounds the inputs of a product to the type of the values.
ALSO_AVX2 static void round_scores(const struct attention_inputs *a, float *scores) {
    for (int i = 0; a->type == CUDA_R_16BF && i < BLOCK * BLOCK; i++)
        scores[i] = float_of(bfloat16_of(scores[i]));
}

static void transpose(const float *block, size_t width, size_t rows, float *to) {
    for (size_t i = 0; i < rows; i++)
        for (size_t d = 0; d < width; d++)
            to[d * rows + i] = block[i * width + d];
}

// A block of queries and keys in a sample.
struct tile {
    size_t head;           // of the batch
    size_t query, queries; // the first one, and how many
    size_t columns;        // of the scores: the queries, rounded up to LANES
    size_t key, keys;
};

static size_t round_up(size_t count) {
    return (count + LANES - 1) / LANES * LANES;
}

// Where the rows of the head begin in an array [samples, tokens, pitch].
static size_t row_at(const struct attention_inputs *a, size_t head, int tokens, size_t token,
                     size_t pitch) {
    size_t heads = (size_t)a->heads;
    return (head / heads * (size_t)tokens + token) * pitch + head % heads * (size_t)a->width;
}

static struct tile tile_of_queries(const struct attention_inputs *a, size_t head, size_t query) {
    size_t queries = min_size(BLOCK, (size_t)a->queries - query);
    return (struct tile){head, query, queries, round_up(queries)};
}

// Returns the number of keys that a query sees: the first ones.
static size_t seen_by(const struct attention_inputs *a, size_t query) {
    size_t seen = (size_t)a->before + query + 1;
    return min_size(seen, (size_t)a->keys);
}

// Moves to the next block of keys. Returns 0 if no query of the block sees one of them.
static int next_keys(const struct attention_inputs *a, struct tile *at) {
    at->key += at->keys;
    if (at->key >= seen_by(a, at->query + at->queries - 1))
        return 0;
    at->keys = min_size(BLOCK, (size_t)a->keys - at->key);
    return 1;
}

// Returns the number of the block's first query that sees key number j of the block.
static size_t first_to_see(const struct attention_inputs *a, const struct tile *at, size_t j) {
    size_t i = 0;
    while (i < at->columns && seen_by(a, at->query + i) <= at->key + j)
        i++;
    return i;
}

static void read_keys(const struct attention_inputs *a, const struct tile *at, struct blocks *b) {
    size_t from = row_at(a, at->head, a->keys, at->key, a->key_pitch);
    read_rows(a, a->k, from, a->key_pitch, at->keys, b->width, b->keys);
    read_rows(a, a->v, from, a->key_pitch, at->keys, b->width, b->values);
}

// scores = keys * queries^T.
static void compute_scores(const struct tile *at, const struct blocks *b, const float *keys,
                           const float *transposed_queries, float *scores) {
    memset(scores, 0, BLOCK * BLOCK * sizeof *scores);
    add_product(round_up(at->keys), at->columns, b->width, keys, b->width, 1, transposed_queries,
                scores);
}

// Drops some shares of the block, or their gradients.
static void drop_shares(const struct attention_inputs *a, const struct tile *at, float *shares) {
    size_t keys = (size_t)a->keys, of_head = (size_t)a->queries * keys;
    uint64_t first = rng_number(a->numbers, at->head * of_head); // those of the head follow
    for (size_t j = 0; a->rate > 0 && j < at->keys; j++)
        for (size_t i = 0; i < at->columns; i++) {
            uint64_t number = first + (at->query + i) * keys + at->key + j;
            float *share = &shares[j * at->columns + i];
            *share = rng_uniform(a->seed, number) < a->rate ? 0 : *share / (1 - a->rate);
        }
}

// Adds a block of keys and their values to a block of queries.
ALSO_AVX2 static void add_keys(const struct attention_inputs *a, const struct tile *at,
                               struct blocks *b) {
    size_t n = at->columns;
    float before[BLOCK], scale = 1 / sqrtf((float)a->width);
    compute_scores(at, b, b->keys, b->transposed_queries, b->scores);
    memcpy(before, b->largest, sizeof before);
    for (size_t j = 0; j < at->keys; j++)
        for (size_t i = first_to_see(a, at, j); i < n; i++) {
            float score = b->scores[j * n + i];
            b->largest[i] = score > b->largest[i] ? score : b->largest[i];
        }
    for (size_t i = 0; i < n; i++) {
        float factor = exponential((before[i] - b->largest[i]) * scale);
        b->sum[i] *= factor;
        for (size_t d = 0; d < b->width; d++)
            b->outputs[i * b->width + d] *= factor;
    }
    for (size_t j = 0; j < at->keys; j++) {
        size_t first = first_to_see(a, at, j);
        float *row = b->scores + j * n;
        memset(row, 0, first * sizeof *row);
        for (size_t i = first; i < n; i++) {
            row[i] = exponential((row[i] - b->largest[i]) * scale);
            b->sum[i] += row[i];
        }
    }
    drop_shares(a, at, b->scores);
    round_scores(a, b->scores);
    add_product(n, b->width, at->keys, b->scores, 1, n, b->values, b->outputs);
}

static float *allocate(size_t floats) {
    float *memory = calloc(floats, sizeof *memory);
    if (!memory)
        fail("no memory for attention");
    return memory;
}

// Returns the arrays of a thread, in one allocation that begins at scores. all_keys: 0 in forward.
static struct blocks new_blocks(const struct attention_inputs *a, size_t all_keys) {
    size_t width = round_up((size_t)a->width), size = BLOCK * width;
    float *next = allocate(2 * BLOCK * BLOCK + 7 * size + 2 * all_keys * width);
    struct blocks b = {.width = width, .scores = next};
    next = b.dscores = next + BLOCK * BLOCK;
    next += BLOCK * BLOCK;
    float **arrays[] = {&b.queries,       &b.dy,   &b.transposed_queries,
                        &b.transposed_dy, &b.keys, &b.values,
                        &b.outputs,       &b.dkeys};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++, next += size)
        *arrays[i] = next;
    b.dvalues = b.dkeys + all_keys * width;
    return b;
}

// Computes the heads from..to of the batch.
ALSO_AVX2 static void run_attend(void *arguments, size_t from, size_t to) {
    const struct attending *attending = arguments;
    const struct attention_inputs *a = &attending->in;
    float scale = 1 / sqrtf((float)a->width);
    struct blocks b = new_blocks(a, 0);
    for (size_t head = from; head < to; head++)
        for (size_t query = 0; query < (size_t)a->queries; query += BLOCK) {
            struct tile at = tile_of_queries(a, head, query);
            size_t y_pitch = (size_t)a->heads * (size_t)a->width;
            read_rows(a, a->q, row_at(a, head, a->queries, query, a->q_pitch), a->q_pitch,
                      at.queries, b.width, b.queries);
            transpose(b.queries, b.width, at.columns, b.transposed_queries);
            for (size_t i = 0; i < BLOCK; i++) {
                b.largest[i] = -INFINITY;
                b.sum[i] = 0;
            }
            memset(b.outputs, 0, BLOCK * b.width * sizeof *b.outputs);
            while (next_keys(a, &at)) {
                read_keys(a, &at, &b);
                add_keys(a, &at, &b);
            }
            for (size_t i = 0; i < at.queries; i++) {
                for (size_t d = 0; d < b.width; d++)
                    b.outputs[i * b.width + d] *= 1 / b.sum[i];
                attending->logs[head * (size_t)a->queries + query + i] =
                    b.largest[i] * scale + logf(b.sum[i]);
            }
            write_rows(a, attending->to_y, row_at(a, head, a->queries, query, y_pitch), y_pitch,
                       at.queries, b.width, b.outputs);
        }
    free(b.scores);
}

// Computes the scores of a block again. Turns them into the shares that forward multiplied by the
// values, and dscores into the gradients of the scores: p * (dp - delta) / sqrt(width).
ALSO_AVX2 static void compute_dscores(const struct attending *attending, const struct tile *at,
                                      struct blocks *b) {
    const struct attention_inputs *a = &attending->in;
    size_t n = at->columns, row = at->head * (size_t)a->queries + at->query;
    float logs[BLOCK] = {0}, scale = 1 / sqrtf((float)a->width);
    memcpy(logs, attending->logs + row, at->queries * sizeof *logs);
    compute_scores(at, b, b->keys, b->transposed_queries, b->scores);
    compute_scores(at, b, b->values, b->transposed_dy, b->dscores);
    drop_shares(a, at, b->dscores);
    for (size_t j = 0; j < at->keys; j++) {
        size_t first = first_to_see(a, at, j);
        float *p = b->scores + j * n, *dp = b->dscores + j * n;
        memset(p, 0, first * sizeof *p);
        memset(dp, 0, first * sizeof *dp);
        for (size_t i = first; i < n; i++) {
            p[i] = exponential(p[i] * scale - logs[i]);
            dp[i] = p[i] * (dp[i] - b->deltas[i]) * scale;
        }
    }
    drop_shares(a, at, b->scores);
    round_scores(a, b->scores);
    round_scores(a, b->dscores);
}

// Computes the heads from..to of the batch. GPUs compute dq in one pass over the blocks, and dk and
// dv in another one.
ALSO_AVX2 static void run_attend_backward(void *arguments, size_t from, size_t to) {
    const struct attending *attending = arguments;
    const struct attention_inputs *a = &attending->in;
    size_t all_keys = (size_t)a->keys, y_pitch = (size_t)a->heads * (size_t)a->width;
    struct blocks b = new_blocks(a, all_keys + BLOCK);
    for (size_t head = from; head < to; head++) {
        memset(b.dkeys, 0, 2 * (all_keys + BLOCK) * b.width * sizeof *b.dkeys);
        for (size_t query = 0; query < (size_t)a->queries; query += BLOCK) {
            struct tile at = tile_of_queries(a, head, query);
            size_t q_at = row_at(a, head, a->queries, query, a->q_pitch);
            read_rows(a, a->q, q_at, a->q_pitch, at.queries, b.width, b.queries);
            size_t y_at = row_at(a, head, a->queries, query, y_pitch);
            read_rows(a, attending->dy, y_at, y_pitch, at.queries, b.width, b.dy);
            transpose(b.queries, b.width, at.columns, b.transposed_queries);
            transpose(b.dy, b.width, at.columns, b.transposed_dy);
            read_rows(a, attending->y, y_at, y_pitch, at.queries, b.width, b.outputs);
            for (size_t i = 0; i < BLOCK; i++) {
                b.deltas[i] = 0;
                for (size_t d = 0; d < b.width; d++)
                    b.deltas[i] += b.dy[i * b.width + d] * b.outputs[i * b.width + d];
            }
            memset(b.outputs, 0, BLOCK * b.width * sizeof *b.outputs);
            while (next_keys(a, &at)) {
                size_t keys = round_up(at.keys), n = at.columns;
                read_keys(a, &at, &b);
                compute_dscores(attending, &at, &b);
                add_product(n, b.width, keys, b.dscores, 1, n, b.keys, b.outputs);
                add_product(keys, b.width, n, b.dscores, n, 1, b.queries,
                            b.dkeys + at.key * b.width);
                add_product(keys, b.width, n, b.scores, n, 1, b.dy, b.dvalues + at.key * b.width);
            }
            write_rows(a, attending->dq, q_at, a->q_pitch, at.queries, b.width, b.outputs);
        }
        for (size_t key = 0; key < all_keys; key += BLOCK) {
            size_t keys = min_size(BLOCK, all_keys - key);
            size_t at = row_at(a, head, a->keys, key, a->key_pitch);
            write_rows(a, attending->dk, at, a->key_pitch, keys, b.width, b.dkeys + key * b.width);
            write_rows(a, attending->dv, at, a->key_pitch, keys, b.width,
                       b.dvalues + key * b.width);
        }
    }
    free(b.scores);
}

// What the modelled clock charges for the tiles of scores that a GPU computes: its products, and
// the instructions for each score in the inner loops, and outside of them for each value of a
// query. Without tensor cores, the products are instructions, too.
static void note_work(const struct attention_inputs *a, int backward) {
    enum { GPU_BLOCK = 64 };
    static const double of_score[3][2][2] = {
        {{299, 542}, {973, 1837}}, // fp32: forward with heads of 64 values and of 128, and backward
        {{35, 59}, {75, 152}},     // TF32
        {{15, 23}, {33, 48}},      // bfloat16
    };
    static const double of_dropout[] = {49, 150}, of_value[] = {20, 69}, products[] = {2, 7};
    double scores = 0, width = a->width > 64 ? 128 : 64, heads = (double)a->samples * a->heads;
    for (int query = 0; query < a->queries; query += GPU_BLOCK) {
        int last = query + GPU_BLOCK < a->queries ? query + GPU_BLOCK : a->queries;
        int seen = a->before + last < a->keys ? a->before + last : a->keys;
        scores += (double)GPU_BLOCK * ((seen + GPU_BLOCK - 1) / GPU_BLOCK * GPU_BLOCK);
    }
    scores *= heads;
    int type = a->type == CUDA_R_16BF ? 2 : a->tf32;
    double for_score =
        of_score[type][backward][a->width > 64] + (a->rate > 0 ? of_dropout[backward] : 0);
    COMPUTES(scores * for_score + heads * a->queries * width * of_value[backward]);
    if (type > 0)
        cpu_multiplies(2 * products[backward] * scores * width, type == 1);
}

// Returns the address of the rows of all heads for device threads.
static void *rows_of(const char *kernel, const struct attention_inputs *a, const void *array,
                     const char *name, int tokens, size_t pitch, int written) {
    size_t value = a->type == CUDA_R_16BF ? sizeof(uint16_t) : sizeof(float);
    return cpu_kernel_view(array, (size_t)a->heads * (size_t)a->width * value, pitch * value,
                           (size_t)a->samples * (size_t)tokens, kernel, name, written);
}
#define ROWS_OF(a, array, tokens, pitch, written)                                                  \
    rows_of(__func__, a, array, #array, tokens, pitch, written)

// Returns a with the addresses of its inputs for device threads.
static struct attending attending_of(const char *kernel, const struct attention_inputs *a) {
    struct attending attending = {*a};
    attending.in.q = rows_of(kernel, a, a->q, "a->q", a->queries, a->q_pitch, 0);
    attending.in.k = rows_of(kernel, a, a->k, "a->k", a->keys, a->key_pitch, 0);
    attending.in.v = rows_of(kernel, a, a->v, "a->v", a->keys, a->key_pitch, 0);
    return attending;
}

void attend(const struct attention_inputs *a, void *y, float *logs, cudaStream_t stream) {
    size_t heads = (size_t)a->samples * (size_t)a->heads,
           width = (size_t)a->heads * (size_t)a->width;
    struct attending attending = attending_of(__func__, a);
    attending.to_y = ROWS_OF(a, y, a->queries, width, 1);
    attending.logs = WRITES(logs, heads * (size_t)a->queries);
    note_work(a, 0);
    LAUNCH(stream, run_attend, attending, heads, 1);
}

void attend_backward(const struct attention_inputs *a, const void *y, const void *dy,
                     const float *logs, float *sums, void *dq, void *dk, void *dv,
                     cudaStream_t stream) {
    size_t heads = (size_t)a->samples * (size_t)a->heads,
           width = (size_t)a->heads * (size_t)a->width;
    struct attending attending = attending_of(__func__, a);
    attending.y = ROWS_OF(a, y, a->queries, width, 0);
    attending.dy = ROWS_OF(a, dy, a->queries, width, 0);
    attending.logs = READS((float *)logs, heads * (size_t)a->queries);
    (void)WRITES(sums, 2 * heads * (size_t)a->queries); // a GPU writes them in a kernel before
    attending.dq = ROWS_OF(a, dq, a->queries, a->q_pitch, 1);
    attending.dk = ROWS_OF(a, dk, a->keys, a->key_pitch, 1);
    attending.dv = ROWS_OF(a, dv, a->keys, a->key_pitch, 1);
    note_work(a, 1);
    LAUNCH(stream, run_attend_backward, attending, heads, 1);
}
