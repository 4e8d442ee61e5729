// The kernels for a GPU: those of the data, of dense layers, of the loss and of step 7.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "common/data/data.h"
#include "common/device/spans.h"
}
#include "common/kernels/divisor.h"
#include "common/kernels/formulas.h"

// values and labels are those of the set: the compiler does not see that pointers inside of a
// struct lead to global memory.
__global__ static void gather_batch_kernel(struct dataset set, const uint8_t *values,
                                           const uint8_t *labels, const uint32_t *order,
                                           size_t first, size_t rows, float *x, uint8_t *y,
                                           struct divisor inputs, struct divisor channels) {
    size_t targets = set.targets;
    FOR_EACH (i, x ? rows * inputs.n : 0) {
        unsigned row = i, input = split(&row, inputs), pixel = input;
        unsigned channel = split(&pixel, channels);
        size_t sample = order ? order[first + row] : first + row;
        float scale = 1.f / (255.f * set.deviation[channel]);
        float shift = -set.mean[channel] / set.deviation[channel];
        x[i] = (float)values[sample * inputs.n + input] * scale + shift;
    }
    FOR_EACH (i, y ? rows * targets : 0) {
        size_t row = i / targets, target = i - row * targets;
        size_t sample = order ? order[first + row] : first + row;
        y[i] = labels[sample * targets + target];
    }
}

void gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                  float *x, uint8_t *y, cudaStream_t stream) {
    span_begin(PHASE_COPY, __func__, stream);
    LAUNCH(gather_batch_kernel, counted((size_t)rows * set->inputs), stream, *set, set->values,
           set->labels, order, first, rows, x, y, divisor(set->inputs),
           divisor(set->shape.channels));
    span_end();
}

__global__ static void add_bias_kernel(float *y, const float *bias, size_t count,
                                       struct divisor cols, int relu) {
    FOR_EACH (i, count) {
        unsigned row = i;
        float sum = y[i] + bias[split(&row, cols)];
        y[i] = relu && sum < 0.f ? 0.f : sum; // NaN stays NaN
    }
}

void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream) {
    size_t count = counted((size_t)rows * cols);
    LAUNCH(add_bias_kernel, count, stream, y, bias, count, divisor(cols), relu);
}

// A block sums TILE columns, with at most TILE rows of threads. Each thread sums a part of one
// column. The threads of one row read TILE neighbouring floats, which is one memory access of the
// GPU. With a constant step from row to row, the compiler lets a thread load 4 rows at a time.
enum { TILE = 32 };

__global__ static void sum_rows_kernel(const float *x, float *sums, size_t rows, size_t cols) {
    __shared__ float parts[TILE][TILE];
    size_t col = blockIdx.x * (size_t)TILE + threadIdx.x;
    float sum = 0.f;
    if (col < cols)
        for (size_t row = threadIdx.y; row < rows; row += TILE)
            sum += x[row * cols + col];
    parts[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y > 0 || col >= cols)
        return;
    for (unsigned part = 1; part < blockDim.y; part++)
        sum += parts[part][threadIdx.x];
    sums[col] = sum;
}

void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream) {
    dim3 threads(TILE, rows < 1 ? 1 : rows < TILE ? rows : TILE);
    LAUNCH_BLOCKS(sum_rows_kernel, (cols + TILE - 1) / TILE, threads, stream, x, sums, rows, cols);
}

// Returns the class with the largest logit of a row, the first of equal ones, to all threads of a
// warp, which have found that of their own classes.
__device__ static int best_of_warp(const float *z, int best) {
    for (int distance = WARP / 2; distance > 0; distance /= 2) {
        int other = __shfl_xor_sync(ALL_THREADS, best, distance);
        if (z[other] > z[best] || (z[other] == z[best] && other < best))
            best = other;
    }
    return best;
}

// A block is one warp, and computes the rows of a lane. Its threads share the classes of a row, so
// they read neighbouring logits at the same time.
__global__ static void softmax_cross_entropy_kernel(const float *logits, const uint8_t *labels,
                                                    size_t rows, int classes, float scale,
                                                    float *dlogits, struct stats *stats,
                                                    float smoothing) {
    int thread = threadIdx.x;
    size_t lane = blockIdx.x;
    for (size_t row = lane; row < rows; row += STATS_LANES) {
        const float *z = logits + row * classes;
        int label = labels[row], best = 0;
        for (int c = thread; c < classes; c += WARP)
            if (z[c] > z[best])
                best = c;
        best = best_of_warp(z, best);
        float sum = 0.f; // exp(z - largest z) cannot overflow
        for (int c = thread; c < classes; c += WARP)
            sum += expf(z[c] - z[best]);
        sum = sum_of_warp(sum);
        for (int c = thread; dlogits && c < classes; c += WARP)
            dlogits[row * classes + c] = (expf(z[c] - z[best]) / sum - (c == label)) * scale;
        double above = 0; // sum over c of z[label] - z[c]
        for (int c = thread; smoothing > 0.f && c < classes; c += WARP) {
            above += z[label] - z[c];
            if (dlogits)
                dlogits[row * classes + c] += smoothing * ((c == label) - 1.f / classes) * scale;
        }
        above = sum_of_warp(above);
        if (thread == 0) {
            stats[lane].loss += (double)(logf(sum) - (z[label] - z[best]));
            stats[lane].loss += smoothing * above / classes;
            stats[lane].correct += best == label;
            stats[lane].samples += 1;
        }
    }
}

void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, float smoothing,
                           cudaStream_t stream) {
    span_begin(PHASE_LOSS, __func__, stream);
    LAUNCH_BLOCKS(softmax_cross_entropy_kernel, STATS_LANES, dim3(WARP), stream, logits, labels,
                  rows, classes, scale, dlogits, stats, smoothing);
    span_end();
}

// The sums of all kernels of fold but the last. The calls of fold are on one stream, one after the
// other, so one array is enough.
__device__ static double folded[MOST_FOLDED / 64];

// lanes NULL, sums NULL: folded.
__global__ static void fold_kernel(const double *lanes, size_t count, double *sums, size_t left) {
    const double *from = lanes ? lanes : folded;
    double *to = sums ? sums : folded;
    FOR_EACH (lane, left) {
        double sum = 0;
        for (size_t i = lane; i < count; i += left)
            sum += from[i];
        to[lane] = sum;
    }
}

// It uses several kernels, because a single one would keep only a few threads busy.
void fold(const double *lanes, size_t count, double *sums, size_t left, cudaStream_t stream) {
    double *none = NULL;
    for (; count > 64 * left; count /= 64, lanes = none)
        LAUNCH(fold_kernel, count / 64, stream, lanes, count, none, count / 64);
    LAUNCH(fold_kernel, left, stream, lanes, count, sums, left);
}

void sum_stats(const struct stats *stats, struct stats *sums, cudaStream_t stream) {
    size_t numbers = sizeof *sums / sizeof(double);
    fold((const double *)stats, STATS_LANES * numbers, (double *)sums, numbers, stream);
}
