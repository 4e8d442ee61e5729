// The kernels of attention, for a GPU. cpu_attention_kernels.c is easier to read, and has functions
// of the same names: read it first. A block of threads has OWN rows of its own, 16 for each
// warp: queries, or keys where it computes the gradients of keys and values. It reads the other
// rows, keys or queries, into shared memory, OTHERS at a time, and copies the next ones while it
// computes. A warp holds its matrices as tensor_cores.h describes them, 8 columns beside each
// other: element e of tile number t is at row_of(e) and column_of(t, e). Where there are no tensor
// cores, or fp32 must not be rounded to TF32, the same threads compute the same elements with
// ordinary instructions.
#include "common/kernels/gpu_launch.h"
#include "zoo/kernels/tensor_cores.h"
extern "C" {
#include "zoo/kernels/attention_kernels.h"
}
#include "zoo/kernels/values.h"
#include <math.h>

enum { WARPS = 4, THREADS = 32 * WARPS, OWN = 16 * WARPS, OTHERS = 32, TILES = OTHERS / 8 };

// What backward needs of a query: the logarithm, to base 2, of the sum of e^score, and the sum of
// dy * y.
struct alignas(8) query_sums {
    float log, delta;
};

struct attending {
    struct attention_inputs in;
    const void *y, *dy;
    void *to_y, *dq, *dk, *dv;
    float *logs;
    struct query_sums *query_sums;
    int aligned; // 1: each row of a head begins at a multiple of 16 bytes
};

// T: float or uint16_t, the type of the values. W: the width of a head, rounded up to 64 or 128.
// Rows lie 16 bytes apart, so that the threads of a warp read different banks of shared memory.
template <class T, int W> struct shared {
    enum { PITCH = W + 16 / sizeof(T) };
    alignas(16) T rows[2 * OTHERS][PITCH]; // of two arrays
    struct query_sums queries[OTHERS];
    enum { STEPS = W * sizeof(T) / 32 };       // of 8 words, in a row
    enum { BUFFERS = sizeof(T) == 2 ? 2 : 1 }; // of backward: with two of floats, fewer blocks fit
};

__device__ static inline int row_of(int e) {
    return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + e / 2 * 8;
}

__device__ static inline int column_of(int tile, int e) {
    return 8 * tile + threadIdx.x % 4 * 2 + e % 2;
}

// Returns the value of the thread that has this column, or words, of the caller's row.
template <class V> __device__ static inline V from_column(V value, int column) {
    return __shfl_sync(~0u, value, threadIdx.x % 32 / 4 * 4 + column);
}

// The rows of a head in an array [samples, tokens, pitch].
struct head_rows {
    char *first;
    unsigned bytes; // from a row to the next one
    unsigned count;
};

template <class T>
__device__ static inline struct head_rows rows_of(const struct attention_inputs &a, unsigned head,
                                                  const void *array, int tokens, size_t pitch) {
    T *first = (T *)array + head / a.heads * tokens * pitch + head % a.heads * a.width;
    return {(char *)first, (unsigned)(pitch * sizeof(T)), (unsigned)tokens};
}

template <class T>
__device__ static inline T *row_at(const struct head_rows &rows, unsigned row, int column) {
    return (T *)(rows.first + (size_t)row * rows.bytes) + column;
}

template <class T, int N> struct alignas(N * sizeof(T)) unit_of { T at[N]; };
// As words, because the compiler would take values of 16 bits apart and put them together again.
template <> struct alignas(16) unit_of<uint16_t, 8> { unsigned at[4]; };

__device__ static inline float float_of(float x) {
    return x;
}

// Begins to read rows, from number begin on, into shared memory, N values at a time. Rows after the
// last one, and columns after the width, become 0.
template <class T, int W, int N>
__device__ static void read_rows_by(struct shared<T, W> &s, int first, int rows,
                                    const struct head_rows &from, int begin, int width) {
    const int threads = W / N; // of a row
#pragma unroll 4
    for (int done = 0; done < rows; done += THREADS / threads) {
        unsigned i = done + threadIdx.x / threads, row = begin + i;
        int column = threadIdx.x % threads * N, exists = row < from.count && column < width;
        const T *at = row_at<const T>(from, row, column);
        T *to = &s.rows[first + i][column];
        if (N * sizeof(T) == 16)
            copy<16>(to, at, exists);
        else
            *to = exists ? *at : T();
    }
}

template <class T, int W>
__device__ static void read_rows(const struct attending &g, struct shared<T, W> &s, int first,
                                 int rows, const struct head_rows &from, int begin) {
    if (g.aligned)
        read_rows_by<T, W, 16 / sizeof(T)>(s, first, rows, from, begin, g.in.width);
    else
        read_rows_by<T, W, 1>(s, first, rows, from, begin, g.in.width);
}

// Returns when all threads have read these rows, and need none from before. For products in TF32,
// each thread rounds the bytes that it has copied, so it waits for no other thread first.
template <class T, int TENSOR, int W>
__device__ static void await_rows(const struct attending &g, struct shared<T, W> &s, int first,
                                  int rows) {
    const int threads = W / 4; // of a row
    await_copies();
    if (TENSOR && sizeof(T) == 4 && has_tensor_cores()) {
        if (!g.aligned) // then other threads have read a part of them
            __syncthreads();
#pragma unroll 2
        for (int done = 0; done < rows; done += THREADS / threads) {
            T *row = s.rows[first + done + threadIdx.x / threads];
            auto *unit = (unit_of<float, 4> *)row + threadIdx.x % threads;
            unit_of<float, 4> rounded = *unit;
            for (float &value : rounded.at)
                value = __uint_as_float(tf32_of(value));
            *unit = rounded;
        }
    }
    __syncthreads();
}

// Reads the thread's words of its warp's own rows: an input a of products.
template <class T, int TENSOR, int W>
__device__ static void read_own(const struct attending &g, struct shared<T, W> &s,
                                unsigned (*own)[4], const struct head_rows &from, int begin) {
    __syncthreads();
    read_rows(g, s, 0, OWN, from, begin);
    await_rows<T, TENSOR>(g, s, 0, OWN);
    for (int step = 0; step < s.STEPS; step++)
        for (int i = 0; i < 4; i++)
            own[step][i] = ((const unsigned *)
                                s.rows[row_of(i % 2 * 2)])[8 * step + i / 2 * 4 + threadIdx.x % 4];
}

__device__ static inline float product_of(unsigned a, unsigned b, float) {
    return __uint_as_float(a) * __uint_as_float(b);
}

__device__ static inline float product_of(unsigned a, unsigned b, uint16_t) {
    return float_of((uint16_t)a) * float_of((uint16_t)b) +
           float_of((uint16_t)(a >> 16)) * float_of((uint16_t)(b >> 16));
}

// c += own rows * rows^T, for OTHERS rows from number first on.
template <class T, int TENSOR, int W>
__device__ static void multiply_by_rows(float (*c)[4], const unsigned (*own)[4],
                                        const struct shared<T, W> &s, int first) {
    if (TENSOR && has_tensor_cores()) {
#pragma unroll
        for (int step = 0; step < s.STEPS; step += 2)
#pragma unroll
            for (int tile = 0; tile < TILES; tile++) {
                unsigned b[4];
                read_words(b, &s.rows[first + 8 * tile][32 / sizeof(T) * step], s.PITCH);
                multiply_add<T>(c[tile], own[step], b);
                multiply_add<T>(c[tile], own[step + 1], b + 2);
            }
        return;
    }
#pragma unroll 1
    for (int word = 0; word < 8 * s.STEPS; word++) {
        const unsigned *pair = own[word / 8] + word % 8 / 4 * 2;
        unsigned low = from_column(pair[0], word % 4), high = from_column(pair[1], word % 4);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            for (int e = 0; e < 2; e++) {
                unsigned other = ((const unsigned *)s.rows[first + column_of(tile, e)])[word];
                c[tile][e] += product_of(low, other, T());
                c[tile][2 + e] += product_of(high, other, T());
            }
    }
}

// Makes an input a of the next products from floats that a product has computed, and b from the
// rows that belong to their columns. Word number column of a and b are columns 2 column and 2
// column + 1 for bfloat16. In TF32, the word column + 4 is column 2 column + 1: any order of the
// columns has the same sum.
__device__ static inline void words_of(unsigned *a, const float (*p)[4], uint16_t) {
    for (int i = 0; i < 4; i++) {
        const float *pair = p[i / 2] + i % 2 * 2;
        a[i] = bfloat16_pair(pair[0], pair[1]);
    }
}

__device__ static inline void words_of(unsigned *a, const float (*p)[4], float) {
    for (int i = 0; i < 4; i++)
        a[i] = tf32_of(p[0][i % 2 * 2 + i / 2]);
}

__device__ static inline void read_columns(unsigned *b, const float *rows, unsigned pitch) {
    for (int i = 0; i < 4; i++)
        b[i] =
            __float_as_uint(rows[column_of(0, i % 2) * pitch + i / 2 * 8 + threadIdx.x % 32 / 4]);
}

// c += p * rows, for the OTHERS rows from number first on.
template <class T, int TENSOR, int W>
__device__ static void multiply_shares(float (*c)[4], const float (*p)[4],
                                       const struct shared<T, W> &s, int first) {
    const int step = 32 / sizeof(T); // rows
    if (TENSOR && has_tensor_cores()) {
#pragma unroll
        for (int row = 0; row < OTHERS; row += step) {
            unsigned a[4];
            words_of(a, p + row / 8, T());
#pragma unroll
            for (int tile = 0; tile < W / 8; tile += 2) {
                unsigned b[4];
                read_columns(b, &s.rows[first + row][8 * tile], s.PITCH);
                multiply_add<T>(c[tile], a, b);
                multiply_add<T>(c[tile + 1], a, b + 2);
            }
        }
        return;
    }
#pragma unroll 1
    for (int row = 0; row < OTHERS; row++) {
        float low = from_column(p[row / 8][row % 2], row % 8 / 2);
        float high = from_column(p[row / 8][2 + row % 2], row % 8 / 2);
#pragma unroll
        for (int tile = 0; tile < W / 8; tile++)
            for (int e = 0; e < 2; e++) {
                T value = s.rows[first + row][column_of(tile, e)];
                c[tile][e] += low * float_of(value);
                c[tile][2 + e] += high * float_of(value);
            }
    }
}

// Returns the number of keys that a query sees: the first ones.
__device__ static inline int seen_by(const struct attention_inputs &a, int query) {
    int seen = a.before + query + 1;
    return seen < a.keys ? seen : a.keys;
}

// The causal mask. KEYS: the rows of the scores are keys. query, key: the first ones.
template <int KEYS>
__device__ static void mask_scores(const struct attention_inputs &a, float (*scores)[4], int query,
                                   int key) {
    if (key + (KEYS ? OWN : OTHERS) <= seen_by(a, query)) // every query sees all of these keys
        return;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        for (int e = 0; e < 4; e++) {
            int row = row_of(e), column = column_of(tile, e);
            if (key + (KEYS ? row : column) >= seen_by(a, query + (KEYS ? column : row)))
                scores[tile][e] = -INFINITY;
        }
}

// Returns the random number of a head's first share. Those of its others follow.
__device__ static inline uint64_t first_number(const struct attention_inputs &a, unsigned head) {
    return rng_number(a.numbers, (size_t)head * a.queries * a.keys);
}

// Drops shares, or their gradients, in training with dropout. KEYS: their rows are keys. number:
// first_number.
template <int KEYS>
__device__ static void drop_shares(const struct attention_inputs &a, float (*shares)[4],
                                   uint64_t number, int query, int key) {
    if (a.rate == 0)
        return;
#pragma unroll
    for (int tile = 0; tile < TILES; tile++)
        for (int e = 0; e < 4; e++) {
            int row = row_of(e), column = column_of(tile, e);
            uint64_t of_query = number + (size_t)(query + (KEYS ? column : row)) * a.keys;
            int is_dropped = rng_uniform(a.seed, of_query + key + (KEYS ? row : column)) < a.rate;
            shares[tile][e] = is_dropped ? 0.f : shares[tile][e] / (1.f - a.rate);
        }
}

// Writes the block's rows, which are in shared memory, N values at a time.
template <class T, int W, int N>
__device__ static void write_rows_by(const struct shared<T, W> &s, const struct head_rows &to,
                                     int begin, int width) {
    const int threads = W / N; // of a row
    int column = threadIdx.x % threads * N;
    for (unsigned i = threadIdx.x / threads; i < OWN && begin + i < to.count;
         i += THREADS / threads)
        if (column < width)
            *(unit_of<T, N> *)row_at<T>(to, begin + i, column) =
                *(const unit_of<T, N> *)&s.rows[i][column];
}

// Writes rows of a result, multiplied by factors[0] or, of row_of(2), factors[1].
template <class T, int W>
__device__ static void write_rows(const struct attending &g, struct shared<T, W> &s,
                                  const struct head_rows &to, int begin, const float (*c)[4],
                                  const float *factors) {
    cudaDataType type = sizeof(T) == 4 ? CUDA_R_32F : CUDA_R_16BF;
    await_copies(); // of rows after the last one that was needed
    __syncthreads();
#pragma unroll
    for (int tile = 0; tile < W / 8; tile++)
        for (int e = 0; e < 4; e++)
            set_value(s.rows[row_of(e)], type, column_of(tile, e), c[tile][e] * factors[e / 2]);
    __syncthreads();
    if (g.aligned)
        write_rows_by<T, W, 16 / sizeof(T)>(s, to, begin, g.in.width);
    else
        write_rows_by<T, W, 1>(s, to, begin, g.in.width);
}

// What a thread knows of the queries in row_of(0) and row_of(2): attention_kernels.h explains it.
// Each sum is that of the thread's own columns. The largest score is multiplied by LOG2_E, because
// a GPU has an instruction for powers of 2.
template <int W> struct softmax { float largest[2], sum[2], outputs[W / 8][4]; };

// Adds a block of keys, from number key on, and their values to the block of queries from number
// query on. p: the products of queries and keys.
template <class T, int TENSOR, int W>
__device__ static void add_keys(const struct attention_inputs &a, const struct shared<T, W> &s,
                                float (*p)[4], uint64_t number, int query, int key,
                                struct softmax<W> &f) {
    float scale = LOG2_E / sqrtf(a.width);
    mask_scores<0>(a, p, query, key);
#pragma unroll
    for (int row = 0; row < 4; row += 2) {
        int i = row / 2;
        float largest = -INFINITY;
        for (int tile = 0; tile < TILES; tile++)
            for (int e = row; e < row + 2; e++)
                largest = fmaxf(largest, p[tile][e]);
        for (int lanes = 1; lanes < 4; lanes *= 2)
            largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, lanes));
        largest = fmaxf(f.largest[i], largest * scale);
        float factor = power_of_2(f.largest[i] - largest);
        f.largest[i] = largest;
        f.sum[i] *= factor;
        for (int tile = 0; tile < TILES; tile++)
            for (int e = row; e < row + 2; e++) {
                p[tile][e] = power_of_2(p[tile][e] * scale - largest);
                f.sum[i] += p[tile][e];
            }
        for (int tile = 0; tile < W / 8; tile++)
            for (int e = row; e < row + 2; e++)
                f.outputs[tile][e] *= factor;
    }
    drop_shares<0>(a, p, number, query, key);
    multiply_shares<T, TENSOR>(f.outputs, p, s, OTHERS);
}

// A block computes OWN queries of a head. Those with the most keys come first, of all heads, so
// that short blocks fill the end.
template <class T, int TENSOR, int W> __global__ static void attend_kernel(struct attending g) {
    __shared__ struct shared<T, W> s;
    const struct attention_inputs &a = g.in;
    unsigned heads = a.samples * a.heads, head = blockIdx.x % heads,
             left = gridDim.x - 1 - blockIdx.x;
    int query = left / heads * OWN;
    struct head_rows keys = rows_of<T>(a, head, a.k, a.keys, a.key_pitch),
                     values = rows_of<T>(a, head, a.v, a.keys, a.key_pitch);
    int seen = keys.count = values.count = seen_by(a, query + OWN - 1);
    unsigned queries[shared<T, W>::STEPS][4];
    read_own<T, TENSOR>(g, s, queries, rows_of<T>(a, head, a.q, a.queries, a.q_pitch), query);
    struct softmax<W> f = {};
    f.largest[0] = f.largest[1] = -INFINITY;
    uint64_t number = first_number(a, head);
    __syncthreads();
    // The values come while the keys are used, and the next keys while the values are.
    read_rows(g, s, 0, OTHERS, keys, 0);
    for (int key = 0; key < seen; key += OTHERS) {
        float p[TILES][4] = {};
        await_rows<T, TENSOR>(g, s, 0, OTHERS);
        read_rows(g, s, OTHERS, OTHERS, values, key);
        multiply_by_rows<T, TENSOR>(p, queries, s, 0);
        await_rows<T, TENSOR>(g, s, OTHERS, OTHERS);
        read_rows(g, s, 0, OTHERS, keys, key + OTHERS);
        add_keys<T, TENSOR>(a, s, p, number, query, key, f);
    }
    for (int i = 0; i < 2; i++) {
        for (int lanes = 1; lanes < 4; lanes *= 2)
            f.sum[i] += __shfl_xor_sync(~0u, f.sum[i], lanes);
        int row = query + row_of(2 * i);
        if (row < a.queries && threadIdx.x % 4 == 0)
            g.logs[head * a.queries + row] = f.largest[i] / LOG2_E + logf(f.sum[i]);
        f.sum[i] = 1.f / f.sum[i];
    }
    size_t width = (size_t)a.heads * a.width;
    write_rows(g, s, rows_of<T>(a, head, g.to_y, a.queries, width), query, f.outputs, f.sum);
}

// LANES threads compute a sum. Each adds up N neighbouring products at a time.
enum { LANES = 8, DELTAS = THREADS / LANES };
template <cudaDataType type, int ALIGNED> __global__ static void deltas_kernel(struct attending g) {
    const struct attention_inputs &a = g.in;
    const int N = type == CUDA_R_32F ? 4 : 8;
    unsigned row = blockIdx.x * DELTAS + threadIdx.x / LANES; // [samples, queries, heads]
    unsigned token = row / a.heads, rows = a.samples * a.queries * a.heads;
    float sum = 0.f;
    for (int d = threadIdx.x % LANES * N; row < rows && d < a.width; d += LANES * N) {
        size_t i = (size_t)row * a.width + d;
        values<type, N> y, dy;
        if (ALIGNED) {
            y = ((const values<type, N> *)g.y)[i / N];
            dy = ((const values<type, N> *)g.dy)[i / N];
        }
        for (int k = 0; k < N && (ALIGNED || d + k < a.width); k++)
            sum += ALIGNED ? value_at(&dy, type, k) * value_at(&y, type, k)
                           : value_at(g.dy, type, i + k) * value_at(g.y, type, i + k);
    }
    for (int lanes = LANES / 2; lanes > 0; lanes /= 2)
        sum += __shfl_xor_sync(~0u, sum, lanes);
    if (row >= rows || threadIdx.x % LANES > 0)
        return;
    size_t head = token / a.queries * a.heads + row % a.heads,
           query = head * a.queries + token % a.queries;
    g.query_sums[query] = {g.logs[query] * LOG2_E, sum};
}

template <cudaDataType type>
static void compute_deltas(const struct attending &g, unsigned rows, cudaStream_t stream) {
    unsigned blocks = (rows + DELTAS - 1) / DELTAS;
    if (g.aligned)
        LAUNCH_BLOCKS((deltas_kernel<type, 1>), blocks, dim3(THREADS), stream, g);
    else
        LAUNCH_BLOCKS((deltas_kernel<type, 0>), blocks, dim3(THREADS), stream, g);
}

// Computes the gradients of the OWN queries from number first on or, with KEYS, those of the OWN
// keys and their values. Both compute the scores again: docs/language-models.md says why.
template <class T, int TENSOR, int W, int KEYS>
__device__ static void compute_gradients(const struct attending &g, struct shared<T, W> *s,
                                         unsigned head, int first) {
    const struct attention_inputs &a = g.in;
    const int AHEAD = (shared<T, W>::BUFFERS - 1) * OTHERS;
    size_t width = (size_t)a.heads * a.width, row = head * a.queries;
    uint64_t number = first_number(a, head);
    struct head_rows q = rows_of<T>(a, head, a.q, a.queries, a.q_pitch),
                     dy = rows_of<T>(a, head, g.dy, a.queries, width),
                     k = rows_of<T>(a, head, a.k, a.keys, a.key_pitch),
                     v = rows_of<T>(a, head, a.v, a.keys, a.key_pitch);
    unsigned own[2][shared<T, W>::STEPS][4];
    float sums[1 + KEYS][W / 8][4] = {}, scale = 1.f / sqrtf(a.width), exponents = scale * LOG2_E;
    read_own<T, TENSOR>(g, *s, own[0], KEYS ? k : q, first);
    read_own<T, TENSOR>(g, *s, own[1], KEYS ? v : dy, first);
    struct query_sums own_sums[2] = {};
    for (int i = 0; i < 2 && !KEYS; i++)
        if (first + row_of(2 * i) < a.queries)
            own_sums[i] = g.query_sums[row + first + row_of(2 * i)];
    int begin = KEYS && first > a.before ? first - a.before : 0; // the first query that sees them
    int end = KEYS ? a.queries : seen_by(a, first + OWN - 1);
    k.count = v.count = KEYS ? a.keys : end;
    int at = 0; // the buffer of the next rows, which come while others are used
    for (int next = begin; next < end + AHEAD; next += OTHERS) {
        int other = next - AHEAD;
        if (AHEAD > 0)
            await_rows<T, TENSOR>(g, s[1 - at], 0, 2 * OTHERS);
        else
            __syncthreads();
        read_rows(g, s[at], 0, OTHERS, KEYS ? q : k, next);
        read_rows(g, s[at], OTHERS, OTHERS, KEYS ? dy : v, next);
        if (KEYS && threadIdx.x < OTHERS) {
            unsigned query = next + threadIdx.x;
            copy<8>(&s[at].queries[threadIdx.x], &g.query_sums[row + query], query < q.count);
        }
        if (AHEAD > 0)
            at = 1 - at;
        else
            await_rows<T, TENSOR>(g, s[at], 0, 2 * OTHERS);
        if (other < begin)
            continue;
        const struct shared<T, W> &now = s[at];
        float p[TILES][4] = {}, dp[TILES][4] = {};
        multiply_by_rows<T, TENSOR>(p, own[0], now, 0);
        int first_query = KEYS ? other : first, first_key = KEYS ? first : other;
        mask_scores<KEYS>(a, p, first_query, first_key);
        multiply_by_rows<T, TENSOR>(dp, own[1], now, OTHERS);
        drop_shares<KEYS>(a, dp, number, first_query, first_key);
#pragma unroll
        for (int tile = 0; tile < TILES; tile++)
            for (int e = 0; e < 4; e++) {
                struct query_sums of = KEYS ? now.queries[column_of(tile, e)] : own_sums[e / 2];
                p[tile][e] = power_of_2(p[tile][e] * exponents - of.log);
                dp[tile][e] = p[tile][e] * (dp[tile][e] - of.delta);
            }
        drop_shares<KEYS>(a, p, number, first_query, first_key);
        multiply_shares<T, TENSOR>(sums[0], dp, now, 0);
        if (KEYS)
            multiply_shares<T, TENSOR>(sums[KEYS], p, now, OTHERS);
    }
    const float scales[2] = {scale, scale}, ones[2] = {1, 1};
    if (KEYS) {
        write_rows(g, *s, rows_of<T>(a, head, g.dk, a.keys, a.key_pitch), first, sums[0], scales);
        write_rows(g, *s, rows_of<T>(a, head, g.dv, a.keys, a.key_pitch), first, sums[KEYS], ones);
    } else
        write_rows(g, *s, rows_of<T>(a, head, g.dq, a.queries, a.q_pitch), first, sums[0], scales);
}

// The first blocks compute keys, those with the most queries first, of all heads. With
// bfloat16 and narrow heads, the compiler saves the few registers that a third block would lack.
template <class T, int TENSOR, int W>
__global__ static void __launch_bounds__(THREADS, W * sizeof(T) == 128 ? 3 : 2)
    attend_backward_kernel(struct attending g) {
    __shared__ struct shared<T, W> s[shared<T, W>::BUFFERS];
    unsigned heads = g.in.samples * g.in.heads, head = blockIdx.x % heads;
    int block = blockIdx.x / heads, left = (gridDim.x - 1 - blockIdx.x) / heads;
    if (block * OWN < g.in.keys)
        compute_gradients<T, TENSOR, W, 1>(g, s, head, block * OWN);
    else
        compute_gradients<T, TENSOR, W, 0>(g, s, head, left * OWN);
}

// Launches the kernel for the type and the width.
#define LAUNCH_WIDTH(kernel, T, TENSOR, blocks, stream, g)                                         \
    do {                                                                                           \
        if ((g).in.width <= 64)                                                                    \
            LAUNCH_BLOCKS((kernel<T, TENSOR, 64>), blocks, dim3(THREADS), stream, g);              \
        else                                                                                       \
            LAUNCH_BLOCKS((kernel<T, TENSOR, 128>), blocks, dim3(THREADS), stream, g);             \
    } while (0)
#define LAUNCH_TYPE(kernel, blocks, stream, g)                                                     \
    do {                                                                                           \
        if ((g).in.type == CUDA_R_16BF)                                                            \
            LAUNCH_WIDTH(kernel, uint16_t, 1, blocks, stream, g);                                  \
        else if ((g).in.tf32)                                                                      \
            LAUNCH_WIDTH(kernel, float, 1, blocks, stream, g);                                     \
        else                                                                                       \
            LAUNCH_WIDTH(kernel, float, 0, blocks, stream, g);                                     \
    } while (0)

// Returns 1 if all rows of this array begin at multiples of 16 bytes.
static int is_aligned(const struct attention_inputs *a, const void *array, size_t pitch) {
    size_t value = a->type == CUDA_R_16BF ? 2 : 4;
    return (uintptr_t)array % 16 == 0 && pitch * value % 16 == 0 && a->width * value % 16 == 0;
}

static int are_aligned(const struct attention_inputs *a, const void *q, const void *k,
                       const void *v, const void *y) {
    return is_aligned(a, q, a->q_pitch) && is_aligned(a, k, a->key_pitch) &&
           is_aligned(a, v, a->key_pitch) && is_aligned(a, y, (size_t)a->heads * a->width);
}

void attend(const struct attention_inputs *a, void *y, float *logs, cudaStream_t stream) {
    unsigned blocks = (unsigned)a->samples * a->heads * ((a->queries + OWN - 1) / OWN);
    struct attending g = {*a, 0, 0, y, 0, 0, 0, logs, NULL, are_aligned(a, a->q, a->k, a->v, y)};
    if (blocks > 0) // a grid of 0 blocks is an error
        LAUNCH_TYPE(attend_kernel, blocks, stream, g);
}

void attend_backward(const struct attention_inputs *a, const void *y, const void *dy,
                     const float *logs, float *sums, void *dq, void *dk, void *dv,
                     cudaStream_t stream) {
    unsigned heads = (unsigned)a->samples * a->heads, rows = heads * a->queries;
    unsigned blocks = heads * ((a->queries + OWN - 1) / OWN + (a->keys + OWN - 1) / OWN);
    int aligned = are_aligned(a, a->q, a->k, a->v, dy) && are_aligned(a, dq, dk, dv, y);
    struct attending g = {*a,     y, dy, NULL, dq, dk, dv, (float *)logs, (struct query_sums *)sums,
                          aligned};
    if (blocks == 0)
        return;
    if (a->type == CUDA_R_32F)
        compute_deltas<CUDA_R_32F>(g, rows, stream);
    else
        compute_deltas<CUDA_R_16BF>(g, rows, stream);
    LAUNCH_TYPE(attend_backward_kernel, blocks, stream, g);
}
