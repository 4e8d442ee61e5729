// The kernels of normalisation for a GPU. A block computes a group, or a warp does if the group has
// few numbers: those of a token (ONE: samples have one pixel). 1 << shift threads side by side read
// neighbouring channels, and the next ones those of the next pixel. A thread computes N channels at
// a time, 4 if a group has a multiple of 4, and reads them at once if they are ALIGNED. The kernels
// count channels in units of N.
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
    unsigned groups = n.groups, width = (unsigned)n.channels / groups,
             channel = number % groups * width;
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

template <int N> using floats = values<CUDA_R_32F, N>;

// Returns unit i of an array of values of this type.
template <cudaDataType type, int N, int ALIGNED>
__device__ static inline floats<N> floats_at(const void *array, size_t i) {
    values<type, N> unit;
    floats<N> x;
    if (ALIGNED)
        unit = ((const values<type, N> *)array)[i];
    for (int k = 0; k < N; k++)
        x.at[k] = ALIGNED ? value_at(&unit, type, k) : value_at(array, type, i * N + k);
    return x;
}

template <cudaDataType type, int N, int ALIGNED>
__device__ static inline void set_floats(void *array, size_t i, const floats<N> &x) {
    values<type, N> unit;
    for (int k = 0; k < N; k++)
        set_value(ALIGNED ? &unit : array, type, ALIGNED ? k : i * N + k, x.at[k]);
    if (ALIGNED)
        ((values<type, N> *)array)[i] = unit;
}

template <int N, int ALIGNED>
__device__ static inline floats<N> parameters_at(const struct norm &n, size_t i) {
    return n.parameters_type == CUDA_R_32F ? floats_at<CUDA_R_32F, N, ALIGNED>(n.parameters, i)
                                           : floats_at<CUDA_R_16BF, N, ALIGNED>(n.parameters, i);
}

template <int N> __device__ static inline void add(floats<N> &sums, const floats<N> &x) {
    for (int k = 0; k < N; k++)
        sums.at[k] += x.at[k];
}

// Replaces the values of a group's threads, a warp or the block, by their sums, always in the same
// order.
__device__ static inline void sum_over_group(float &a, float &b, unsigned threads) {
    enum { WARPS = BLOCK_THREADS / WARP };
    __shared__ float sums[2][WARPS];
    a = sum_of_warp(a);
    b = sum_of_warp(b);
    if (threads == WARP)
        return;
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
    sum_over_group(value, none, ONE ? WARP : BLOCK_THREADS);
    return value;
}

template <int ONE, cudaDataType type, int N, int ALIGNED>
__global__ static void normalise_kernel(struct norm n, void *to_y, unsigned shift) {
    size_t number = ONE ? (blockIdx.x * (size_t)BLOCK_THREADS + threadIdx.x) / WARP : blockIdx.x;
    struct group_view v = group_at(n, number, shift);
    float sum = 0.f, squares = 0.f, count = n.pixels * v.width * N;
    if (number >= n.samples * n.groups)
        return;
    FOR_CHANNELS (c, v)
        FOR_PIXELS (e, v)
            for (float x : floats_at<CUDA_R_32F, N, ALIGNED>(n.x, place_of<ONE>(n, v, c, e)).at)
                sum += x;
    float mean = sum_of_group<ONE>(sum) / count;
    FOR_CHANNELS (c, v)
        FOR_PIXELS (e, v)
            for (float x : floats_at<CUDA_R_32F, N, ALIGNED>(n.x, place_of<ONE>(n, v, c, e)).at)
                squares += (x - mean) * (x - mean);
    float inverse = 1 / sqrtf(sum_of_group<ONE>(squares) / count + 1e-5f);
    FOR_CHANNELS (c, v) {
        floats<N> scale = parameters_at<N, ALIGNED>(n, v.channel + c);
        floats<N> shift = parameters_at<N, ALIGNED>(n, n.channels + v.channel + c);
        FOR_PIXELS (e, v) {
            size_t i = place_of<ONE>(n, v, c, e);
            floats<N> y = floats_at<CUDA_R_32F, N, ALIGNED>(n.x, i);
            for (int k = 0; k < N; k++) {
                y.at[k] = (y.at[k] - mean) * inverse * scale.at[k] + shift.at[k];
                y.at[k] = n.relu && y.at[k] < 0.f ? 0.f : y.at[k]; // NaN stays NaN
            }
            set_floats<type, N, ALIGNED>(to_y, i, y);
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
#define LAUNCH_NORM(kernel, N, ALIGNED, n, ...)                                                    \
    do {                                                                                           \
        if ((n).type == CUDA_R_16BF)                                                               \
            LAUNCH_VERSION(kernel, CUDA_R_16BF, N, ALIGNED, n, __VA_ARGS__);                       \
        else                                                                                       \
            LAUNCH_VERSION(kernel, CUDA_R_32F, N, ALIGNED, n, __VA_ARGS__);                        \
    } while (0)
#define LAUNCH_VERSION(kernel, type, N, ALIGNED, n, ...)                                           \
    do {                                                                                           \
        if ((n).pixels == 1)                                                                       \
            LAUNCH_SHARED((kernel<1, type, N, ALIGNED>), __VA_ARGS__);                             \
        else                                                                                       \
            LAUNCH_SHARED((kernel<0, type, N, ALIGNED>), __VA_ARGS__);                             \
    } while (0)

// Launches a function that is a template for N and ALIGNED.
#define CALL_BY(function, n, all, ...)                                                             \
    do {                                                                                           \
        if ((n)->channels / (n)->groups % 4)                                                       \
            function<1, 1>(n, __VA_ARGS__);                                                        \
        else if ((all) % 16)                                                                       \
            function<4, 0>(n, __VA_ARGS__);                                                        \
        else                                                                                       \
            function<4, 1>(n, __VA_ARGS__);                                                        \
    } while (0)

static struct norm in_units(const struct norm *n, size_t size) {
    struct norm units = *n;
    units.channels /= size;
    return units;
}

template <int N, int ALIGNED>
static void normalise_by(const struct norm *of, void *y, cudaStream_t stream) {
    struct norm n = in_units(of, N);
    size_t groups = n.samples * n.groups, threads = n.pixels == 1 ? WARP : BLOCK_THREADS;
    if (groups > 0) // a grid of 0 blocks is an error
        LAUNCH_NORM(normalise_kernel, N, ALIGNED, n, (groups * threads - 1) / BLOCK_THREADS + 1,
                    dim3(BLOCK_THREADS), 0, stream, n, y, shift_of(&n, threads));
}

void normalise(const struct norm *n, void *y, cudaStream_t stream) {
    CALL_BY(normalise_by, n, (uintptr_t)n->x | (uintptr_t)n->parameters | (uintptr_t)y, y, stream);
}

// A block computes a group of the samples of a slice, one after the other or, of narrow tokens,
// each warp one of them. With d = dy * scale, the gradient of x is (d - mean of d - normalised *
// mean of (d * normalised)) / deviation.
template <int ONE, cudaDataType type, int N, int ALIGNED>
__global__ static void normalise_backward_kernel(struct norm n, const void *dy, const float *other,
                                                 float *dx, float *sums, unsigned shift,
                                                 unsigned slots) {
    SHARED_FLOATS(gradients); // slots of each thread for its channels: of scales, then of shifts
    floats<N> *dscale = (floats<N> *)gradients, *dshift = dscale + slots;
    unsigned groups = n.groups, slices = gridDim.x / groups, slice = blockIdx.x / groups;
    struct group_view v = group_at(n, blockIdx.x % groups, shift);
    unsigned own = threadIdx.x - v.lane, threads = ONE ? v.lanes : BLOCK_THREADS; // of a group
    float share = 1.f / (n.pixels * v.width * N); // of a number in a mean
    FOR_CHANNELS (c, v)
        dscale[own + c] = dshift[own + c] = {};
    unsigned sample = n.samples * slice / slices, end = n.samples * (slice + 1) / slices;
    for (sample += ONE ? own / threads : 0; sample < end; sample += BLOCK_THREADS / threads) {
        size_t number = (size_t)sample * groups + blockIdx.x % groups;
        float mean = n.statistics[2 * number], inverse = n.statistics[2 * number + 1];
        float sum = 0.f, products = 0.f;
        v.first = sample * n.pixels * n.channels + v.channel;
        FOR_CHANNELS (c, v) {
            floats<N> of_scale = {}, of_shift = {},
                      scale = parameters_at<N, ALIGNED>(n, v.channel + c);
            FOR_PIXELS (e, v) {
                size_t i = place_of<ONE>(n, v, c, e);
                floats<N> x = floats_at<CUDA_R_32F, N, ALIGNED>(n.x, i),
                          gradient = floats_at<type, N, ALIGNED>(dy, i);
                for (int k = 0; k < N; k++)
                    of_scale.at[k] += gradient.at[k] * ((x.at[k] - mean) * inverse);
                add(of_shift, gradient);
            }
            for (int k = 0; k < N; k++) {
                products += scale.at[k] * of_scale.at[k];
                sum += scale.at[k] * of_shift.at[k];
            }
            add(dscale[own + c], of_scale);
            add(dshift[own + c], of_shift);
        }
        if (!dx)
            continue;
        sum_over_group(sum, products, threads);
        float mean_d = sum * share, mean_product = products * share;
        FOR_CHANNELS (c, v) {
            floats<N> scale = parameters_at<N, ALIGNED>(n, v.channel + c);
            FOR_PIXELS (e, v) {
                size_t i = place_of<ONE>(n, v, c, e);
                floats<N> x = floats_at<CUDA_R_32F, N, ALIGNED>(n.x, i),
                          d = floats_at<type, N, ALIGNED>(dy, i);
                floats<N> result = {};
                if (other)
                    result = floats_at<CUDA_R_32F, N, ALIGNED>(other, i);
                for (int k = 0; k < N; k++) {
                    float normalised = (x.at[k] - mean) * inverse;
                    result.at[k] +=
                        (d.at[k] * scale.at[k] - mean_d - normalised * mean_product) * inverse;
                }
                set_floats<CUDA_R_32F, N, ALIGNED>(dx, i, result);
            }
        }
    }
    for (unsigned half = BLOCK_THREADS / 2; half >= v.lanes; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half && v.lane < v.width) {
            add(dscale[threadIdx.x], dscale[threadIdx.x + half]);
            add(dshift[threadIdx.x], dshift[threadIdx.x + half]);
        }
    }
    if (own > 0)
        return;
    FOR_CHANNELS (c, v) {
        size_t i = 2 * slice * n.channels + v.channel + c;
        set_floats<CUDA_R_32F, N, ALIGNED>(sums, i, dscale[c]);
        set_floats<CUDA_R_32F, N, ALIGNED>(sums, i + n.channels, dshift[c]);
    }
}

template <int N, int ALIGNED>
static void normalise_backward_by(const struct norm *of, const void *dy, const float *other,
                                  float *dx, float *sums, cudaStream_t stream) {
    struct norm n = in_units(of, N);
    unsigned width = n.channels / n.groups, slots = BLOCK_THREADS, threads = BLOCK_THREADS;
    if (slots < width)
        slots = width;
    if (n.pixels == 1 && width <= WARP)
        threads = WARP;
    LAUNCH_NORM(normalise_backward_kernel, N, ALIGNED, n, norm_slices(n.samples) * n.groups,
                dim3(BLOCK_THREADS), 2 * slots * sizeof(floats<N>), stream, n, dy, other, dx, sums,
                shift_of(&n, threads), slots);
}

void normalise_backward(const struct norm *n, const void *dy, const float *other, float *dx,
                        float *gradients, float *scratch, cudaStream_t stream) {
    uintptr_t all = (uintptr_t)n->x | (uintptr_t)n->parameters | (uintptr_t)dy | (uintptr_t)other |
                    (uintptr_t)dx | (uintptr_t)scratch;
    CALL_BY(normalise_backward_by, n, all, dy, other, dx, scratch, stream);
    sum_rows(scratch, gradients, (int)norm_slices(n->samples), (int)(2 * n->channels), stream);
}
