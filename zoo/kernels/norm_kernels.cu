// The kernels of normalisation for a GPU. A block computes a group, or a warp does if the group has
// few numbers: those of a token (ONE: samples have one pixel). 1 << shift threads side by side read
// neighbouring channels, and the next ones those of the next pixel.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/norm_kernels.h"
}
#include "zoo/kernels/values.h"

struct group_view {
    size_t first; // where the group begins in the batch
    size_t channel, width;
    unsigned lane, lanes, shift;
    size_t end; // pixels << shift
};

// number: of the group in the batch.
__device__ static inline struct group_view group_at(const struct norm &n, size_t number,
                                                    unsigned shift) {
    unsigned groups = n.groups, width = n.channels / groups, channel = number % groups * width;
    unsigned lanes = 1u << shift;
    size_t first = number / groups * n.pixels * n.channels + channel;
    return {first, channel, width, threadIdx.x % lanes, lanes, shift, n.pixels << shift};
}

// Loop over the channels of a thread and over their pixels. Pixel e >> shift is at place_of(...).
#define FOR_CHANNELS(c, v) for (size_t c = (v).lane; c < (v).width; c += (v).lanes)
#define FOR_PIXELS(e, v)                                                                           \
    for (size_t e = ONE ? 0 : threadIdx.x; e < (ONE ? 1 : (v).end); e += BLOCK_THREADS)
template <int ONE>
__device__ static inline size_t place_of(const struct norm &n, const struct group_view &v, size_t c,
                                         size_t e) {
    return v.first + c + (ONE ? 0 : (e >> v.shift) * n.channels);
}

// Replaces the values of a block's threads by their sums, always in the same order.
__device__ static inline void sum_over_block(float &a, float &b) {
    enum { WARPS = BLOCK_THREADS / WARP };
    __shared__ float sums[2][WARPS];
    a = sum_of_warp(a);
    b = sum_of_warp(b);
    if (threadIdx.x % WARP == 0) {
        sums[0][threadIdx.x / WARP] = a;
        sums[1][threadIdx.x / WARP] = b;
    }
    __syncthreads();
    a = b = 0.f;
    for (int warp = 0; warp < WARPS; warp++) {
        a += sums[0][warp];
        b += sums[1][warp];
    }
    __syncthreads(); // the next call overwrites the sums
}

template <int ONE> __device__ static inline float sum_of_group(float value) {
    float none = 0.f;
    if (ONE)
        return sum_of_warp(value);
    sum_over_block(value, none);
    return value;
}

template <int ONE, cudaDataType type>
__global__ static void normalise_kernel(struct norm n, void *y, unsigned shift) {
    size_t number = ONE ? (blockIdx.x * (size_t)BLOCK_THREADS + threadIdx.x) / WARP : blockIdx.x;
    struct group_view v = group_at(n, number, shift);
    float sum = 0.f, squares = 0.f, count = n.pixels * v.width;
    if (number >= n.samples * n.groups)
        return;
    FOR_CHANNELS (c, v)
        FOR_PIXELS (e, v)
            sum += n.x[place_of<ONE>(n, v, c, e)];
    float mean = sum_of_group<ONE>(sum) / count;
    FOR_CHANNELS (c, v)
        FOR_PIXELS (e, v) {
            float difference = n.x[place_of<ONE>(n, v, c, e)] - mean;
            squares += difference * difference;
        }
    float inverse = 1 / sqrtf(sum_of_group<ONE>(squares) / count + 1e-5f);
    FOR_CHANNELS (c, v) {
        float scale = value_at(n.parameters, n.parameters_type, v.channel + c);
        float shift = value_at(n.parameters, n.parameters_type, n.channels + v.channel + c);
        FOR_PIXELS (e, v) {
            size_t i = place_of<ONE>(n, v, c, e);
            float result = (n.x[i] - mean) * inverse * scale + shift;
            set_value(y, type, i, n.relu && result < 0.f ? 0.f : result); // NaN stays NaN
        }
    }
    if (threadIdx.x % (ONE ? WARP : BLOCK_THREADS) == 0) {
        n.statistics[2 * number] = mean;
        n.statistics[2 * number + 1] = inverse;
    }
}

// At most this number of threads read neighbouring channels: all of them if there is one pixel.
static unsigned shift_of(const struct norm *n, unsigned most) {
    size_t width = n->pixels == 1 ? most : n->channels / n->groups;
    unsigned shift = 0;
    while (1u << shift < width && 1u << shift < most)
        shift++;
    return shift;
}

// Launches the version of a kernel for these samples and the type of their values.
#define LAUNCH_NORM(kernel, n, ...)                                                                \
    do {                                                                                           \
        if ((n)->type == CUDA_R_16BF)                                                              \
            LAUNCH_VERSION(kernel, n, CUDA_R_16BF, __VA_ARGS__);                                   \
        else                                                                                       \
            LAUNCH_VERSION(kernel, n, CUDA_R_32F, __VA_ARGS__);                                    \
    } while (0)
#define LAUNCH_VERSION(kernel, n, type, ...)                                                       \
    do {                                                                                           \
        if ((n)->pixels == 1)                                                                      \
            LAUNCH_BLOCKS((kernel<1, type>), __VA_ARGS__);                                         \
        else                                                                                       \
            LAUNCH_BLOCKS((kernel<0, type>), __VA_ARGS__);                                         \
    } while (0)

void normalise(const struct norm *n, void *y, cudaStream_t stream) {
    size_t groups = n->samples * n->groups, threads = n->pixels == 1 ? WARP : BLOCK_THREADS;
    if (groups > 0) // a grid of 0 blocks is an error
        LAUNCH_NORM(normalise_kernel, n, (groups * threads - 1) / BLOCK_THREADS + 1,
                    dim3(BLOCK_THREADS), stream, *n, y, shift_of(n, threads));
}

// A block computes a group of the samples of a slice, one after the other. With d = dy * scale, the
// gradient of x is (d - mean of d - normalised * mean of (d * normalised)) / deviation.
template <int ONE, cudaDataType type>
__global__ static void normalise_backward_kernel(struct norm n, const void *dy, const float *other,
                                                 float *dx, float *sums, unsigned shift) {
    __shared__ float dscale[MOST_NORM_CHANNELS], dshift[MOST_NORM_CHANNELS]; // of each thread
    unsigned groups = n.groups, slices = gridDim.x / groups, slice = blockIdx.x / groups;
    struct group_view v = group_at(n, blockIdx.x % groups, shift);
    unsigned own = threadIdx.x - v.lane;
    FOR_CHANNELS (c, v)
        dscale[own + c] = dshift[own + c] = 0.f;
    for (size_t sample = n.samples * slice / slices; sample < n.samples * (slice + 1) / slices;
         sample++) {
        size_t number = sample * groups + blockIdx.x % groups;
        float mean = n.statistics[2 * number], inverse = n.statistics[2 * number + 1];
        float sum = 0.f, products = 0.f, count = n.pixels * v.width;
        v.first = sample * n.pixels * n.channels + v.channel;
        FOR_CHANNELS (c, v) {
            float of_scale = 0.f, of_shift = 0.f;
            FOR_PIXELS (e, v) {
                size_t i = place_of<ONE>(n, v, c, e);
                float gradient = value_at(dy, type, i);
                of_scale += gradient * ((n.x[i] - mean) * inverse);
                of_shift += gradient;
            }
            float scale = value_at(n.parameters, n.parameters_type, v.channel + c);
            products += scale * of_scale;
            sum += scale * of_shift;
            dscale[own + c] += of_scale;
            dshift[own + c] += of_shift;
        }
        if (!dx)
            continue;
        sum_over_block(sum, products);
        float mean_d = sum / count, mean_product = products / count;
        FOR_CHANNELS (c, v) {
            float scale = value_at(n.parameters, n.parameters_type, v.channel + c);
            FOR_PIXELS (e, v) {
                size_t i = place_of<ONE>(n, v, c, e);
                float d = value_at(dy, type, i) * scale, normalised = (n.x[i] - mean) * inverse;
                float gradient = (d - mean_d - normalised * mean_product) * inverse;
                dx[i] = other ? other[i] + gradient : gradient;
            }
        }
    }
    __syncthreads();
    if (own > 0)
        return;
    FOR_CHANNELS (c, v) {
        for (unsigned other = v.lanes; other < BLOCK_THREADS; other += v.lanes) {
            dscale[c] += dscale[other + c];
            dshift[c] += dshift[other + c];
        }
        sums[2 * slice * n.channels + v.channel + c] = dscale[c];
        sums[(2 * slice + 1) * n.channels + v.channel + c] = dshift[c];
    }
}

void normalise_backward(const struct norm *n, const void *dy, const float *other, float *dx,
                        float *gradients, float *scratch, cudaStream_t stream) {
    size_t slices = norm_slices(n->samples);
    LAUNCH_NORM(normalise_backward_kernel, n, slices * n->groups, dim3(BLOCK_THREADS), stream, *n,
                dy, other, dx, scratch, shift_of(n, BLOCK_THREADS));
    sum_rows(scratch, gradients, (int)slices, (int)(2 * n->channels), stream);
}
