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

// A block adds up the rows of one entry, and each thread PLACES of their columns. First, the warps
// list these rows: each warp looks at the tokens of PART rows, and adds up those that it has found,
// so that all warps share the rows of a frequent entry. A thread loads LOADS rows at a time,
// because it would wait for each one otherwise. The order of the sums is always the same.
enum { WARPS = BLOCK_THREADS / WARP, PART = 128, LOADS = 8, PLACES = 4, COLUMNS = PLACES * WARP };

__global__ static void look_up_backward_kernel(const float *tokens, const float *dy, float *dtable,
                                               size_t rows, size_t width, unsigned entries) {
    __shared__ unsigned listed[WARPS][PART];
    __shared__ float sums[WARPS][COLUMNS];
    unsigned entry = blockIdx.x % entries, warp = threadIdx.x / WARP, thread = threadIdx.x % WARP;
    size_t begin = blockIdx.x / entries * COLUMNS;
    float sum[PLACES] = {};
    for (size_t first = 0; first < rows; first += WARPS * PART) {
        unsigned count = 0;
        for (unsigned i = thread; i < PART; i += WARP) {
            size_t row = first + warp * PART + i;
            unsigned found = __ballot_sync(ALL_THREADS, row < rows && tokens[row] == entry);
            if (found >> thread & 1) // its place is after those of the threads before it
                listed[warp][count + __popc(found & ((1u << thread) - 1))] = row;
            count += __popc(found);
        }
        __syncthreads();
        for (unsigned i = 0; i < count; i += LOADS) {
            float loaded[LOADS][PLACES] = {};
            for (unsigned j = 0; j < LOADS; j++)
                for (unsigned place = 0; place < PLACES; place++) {
                    size_t column = begin + place * WARP + thread;
                    if (i + j < count && column < width)
                        loaded[j][place] = dy[listed[warp][i + j] * width + column];
                }
            for (unsigned j = 0; j < LOADS; j++)
                for (unsigned place = 0; place < PLACES; place++)
                    sum[place] += loaded[j][place];
        }
        __syncthreads();
    }
    for (unsigned place = 0; place < PLACES; place++)
        sums[warp][place * WARP + thread] = sum[place];
    __syncthreads();
    for (size_t i = threadIdx.x; i < COLUMNS && begin + i < width; i += BLOCK_THREADS) {
        float of_all = 0.f;
        for (unsigned w = 0; w < WARPS; w++)
            of_all += sums[w][i];
        dtable[entry * width + begin + i] = of_all;
    }
}

void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream) {
    unsigned blocks_of_entry = (width + COLUMNS - 1) / COLUMNS;
    LAUNCH_BLOCKS(look_up_backward_kernel, entries * blocks_of_entry, dim3(BLOCK_THREADS), stream,
                  tokens, dy, dtable, rows, width, entries);
}
