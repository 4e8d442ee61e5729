// The kernels for sequences of tokens, for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/sequence_kernels.h"
}

// A block computes a row.
__global__ static void look_up_kernel(const float *tokens, const float *table, float *y,
                                      size_t width) {
    const float *entry = table + (size_t)tokens[blockIdx.x] * width;
    for (size_t i = threadIdx.x; i < width; i += BLOCK_THREADS)
        y[blockIdx.x * width + i] = entry[i];
}

void look_up(const float *tokens, const float *table, float *y, int rows, int width, int entries,
             cudaStream_t stream) {
    (void)entries;
    if (rows > 0) // a grid of 0 blocks is an error
        LAUNCH_BLOCKS(look_up_kernel, rows, dim3(BLOCK_THREADS), stream, tokens, table, y, width);
}

// A block adds up the rows of one entry, and each thread one of their columns. First, the warps
// list these rows: each warp looks at the tokens of PART rows. Then a thread loads LOADS rows at a
// time, because it would wait for each one otherwise. The order of the rows stays: a sum + 0 is the
// sum.
enum { WARPS = BLOCK_THREADS / WARP, PART = 512, LOADS = 16 };

__global__ static void look_up_backward_kernel(const float *tokens, const float *dy, float *dtable,
                                               size_t rows, size_t width, unsigned entries) {
    __shared__ unsigned listed[WARPS][PART], counts[WARPS];
    unsigned entry = blockIdx.x % entries, warp = threadIdx.x / WARP, thread = threadIdx.x % WARP;
    size_t column = blockIdx.x / entries * BLOCK_THREADS + threadIdx.x;
    float sum = 0.f;
    for (size_t first = 0; first < rows; first += WARPS * PART) {
        unsigned count = 0;
        for (unsigned i = thread; i < PART; i += WARP) {
            size_t row = first + warp * PART + i;
            unsigned found = __ballot_sync(ALL_THREADS, row < rows && tokens[row] == entry);
            if (found >> thread & 1) // its place is behind those of the threads before it
                listed[warp][count + __popc(found & ((1u << thread) - 1))] = row;
            count += __popc(found);
        }
        counts[warp] = count;
        __syncthreads();
        for (unsigned w = 0; w < WARPS; w++) {
            count = column < width ? counts[w] : 0;
            for (unsigned i = 0; i < count; i += LOADS) {
                float loaded[LOADS];
                for (unsigned j = 0; j < LOADS; j++)
                    loaded[j] = i + j < count ? dy[listed[w][i + j] * width + column] : 0.f;
                for (unsigned j = 0; j < LOADS; j++)
                    sum += loaded[j];
            }
        }
        __syncthreads();
    }
    if (column < width)
        dtable[entry * width + column] = sum;
}

void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream) {
    unsigned blocks_of_entry = (width + BLOCK_THREADS - 1) / BLOCK_THREADS;
    LAUNCH_BLOCKS(look_up_backward_kernel, entries * blocks_of_entry, dim3(BLOCK_THREADS), stream,
                  tokens, dy, dtable, rows, width, entries);
}

// It needs fewer instructions than a division.
__device__ static inline float sigmoid(float x) {
    return 0.5f + 0.5f * tanhf(0.5f * x);
}

#include "zoo/kernels/activation_formulas.h"

// How the matrices of heads are copied: this number of blocks copies each matrix. The index of an
// element in its matrix is a 32-bit number, whose division is fast.
enum { BLOCKS_OF_MATRIX = 16 };
#define FOR_EACH_OF_MATRIX(i, size)                                                                \
    for (unsigned i = blockIdx.x % BLOCKS_OF_MATRIX * BLOCK_THREADS + threadIdx.x; i < (size);     \
         i += BLOCKS_OF_MATRIX * BLOCK_THREADS)

struct heads_place {
    size_t matrix;   // where the block's matrix lies among the matrices
    size_t batch;    // where its token 0 lies in the batch
    size_t distance; // from there to the next token
};

__device__ static struct heads_place place_of_block(size_t parts, size_t first, size_t count,
                                                    struct heads h) {
    size_t matrix = blockIdx.x / BLOCKS_OF_MATRIX, size = (size_t)h.tokens * h.width;
    size_t part = matrix / count, head = first + matrix % count;
    size_t place = (head / h.heads * h.tokens * parts + part) * h.heads + head % h.heads;
    return {matrix * size, place * h.width, parts * h.heads * h.width};
}

__global__ static void split_heads_kernel(const float *x, float *y, size_t parts, size_t first,
                                          size_t count, struct heads h) {
    struct heads_place p = place_of_block(parts, first, count, h);
    unsigned width = h.width, size = h.tokens * width;
    FOR_EACH_OF_MATRIX(i, size)
    y[p.matrix + i] = x[p.batch + i / width * p.distance + i % width];
}

__global__ static void merge_heads_kernel(const float *x, float *y, size_t parts, size_t first,
                                          size_t count, struct heads h) {
    struct heads_place p = place_of_block(parts, first, count, h);
    unsigned width = h.width, size = h.tokens * width;
    FOR_EACH_OF_MATRIX(i, size)
    y[p.batch + i / width * p.distance + i % width] = x[p.matrix + i];
}

void split_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream) {
    if (count > 0)
        LAUNCH_BLOCKS(split_heads_kernel, (unsigned)parts * count * BLOCKS_OF_MATRIX,
                      dim3(BLOCK_THREADS), stream, x, y, parts, first, count, h);
}

void merge_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream) {
    if (count > 0)
        LAUNCH_BLOCKS(merge_heads_kernel, (unsigned)parts * count * BLOCKS_OF_MATRIX,
                      dim3(BLOCK_THREADS), stream, x, y, parts, first, count, h);
}

// A block computes a row.
__global__ static void causal_softmax_kernel(float *matrices, size_t queries, size_t tokens,
                                             float scale) {
    float *row = matrices + blockIdx.x * tokens, largest = row[0], sum = 0.f;
    size_t seen = tokens - queries + blockIdx.x % queries + 1;
    for (size_t i = threadIdx.x; i < seen; i += BLOCK_THREADS)
        largest = row[i] > largest ? row[i] : largest;
    largest = over_block(largest, 1);
    for (size_t i = threadIdx.x; i < seen; i += BLOCK_THREADS) {
        row[i] = expf((row[i] - largest) * scale);
        sum += row[i];
    }
    float inverse = 1.f / over_block(sum, 0);
    for (size_t i = threadIdx.x; i < tokens; i += BLOCK_THREADS)
        row[i] = i < seen ? row[i] * inverse : 0.f;
}

void causal_softmax(float *matrices, size_t count, int queries, int tokens, float scale,
                    cudaStream_t stream) {
    if (count > 0) // a grid of 0 blocks is an error
        LAUNCH_BLOCKS(causal_softmax_kernel, (unsigned)(count * queries), dim3(BLOCK_THREADS),
                      stream, matrices, queries, tokens, scale);
}

// Row by row: dscores = p * (dp - sum of p * dp) * scale.
__global__ static void causal_softmax_backward_kernel(const float *p, float *dp, size_t tokens,
                                                      float scale) {
    size_t first = blockIdx.x * tokens, seen = blockIdx.x % tokens + 1;
    float sum = 0.f;
    for (size_t i = threadIdx.x; i < seen; i += BLOCK_THREADS)
        sum += p[first + i] * dp[first + i];
    sum = over_block(sum, 0);
    for (size_t i = threadIdx.x; i < tokens; i += BLOCK_THREADS)
        dp[first + i] = i < seen ? p[first + i] * (dp[first + i] - sum) * scale : 0.f;
}

void causal_softmax_backward(const float *p, float *dp, size_t count, int tokens, float scale,
                             cudaStream_t stream) {
    if (count > 0)
        LAUNCH_BLOCKS(causal_softmax_backward_kernel, (unsigned)(count * tokens),
                      dim3(BLOCK_THREADS), stream, p, dp, tokens, scale);
}
