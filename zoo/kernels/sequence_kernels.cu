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
            if (found >> thread & 1) // its place is after those of the threads before it
                listed[warp][count + __popc(found & ((1u << thread) - 1))] = row;
            count += __popc(found);
        }
        if (thread == 0)
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
