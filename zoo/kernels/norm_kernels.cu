// The kernels of group normalisation for a GPU. A block computes one group of one image.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/norm_kernels.h"
}

// Returns the sum of the threads' values to all threads of a block of BLOCK_THREADS, or the largest
// value. The order of the additions is always the same.
__device__ static inline float over_block(float value, int largest) {
    __shared__ float values[BLOCK_THREADS];
    values[threadIdx.x] = value;
    __syncthreads();
    for (unsigned half = BLOCK_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) {
            float other = values[threadIdx.x + half], own = values[threadIdx.x];
            values[threadIdx.x] = !largest ? own + other : other > own ? other : own;
        }
        __syncthreads();
    }
    float result = values[0];
    __syncthreads(); // the next call overwrites values
    return result;
}

// One group of one image, as a block sees it. Element i is a channel of a pixel.
struct group_view {
    size_t first; // where the group begins in the batch
    unsigned count, channels, first_channel;
    struct divisor width; // channels of the group
};

__device__ static struct group_view group_of_block(struct groups g, struct divisor width) {
    size_t image = blockIdx.x / g.groups, pixels = (size_t)g.in.height * g.in.width;
    unsigned first_channel = blockIdx.x % g.groups * width.n;
    return {image * pixels * g.in.channels + first_channel, (unsigned)pixels * width.n,
            (unsigned)g.in.channels, first_channel, width};
}

// Returns where element i of the group is in the batch, and its channel in c.
__device__ static size_t element(const struct group_view &v, unsigned i, unsigned &c) {
    unsigned pixel = i;
    unsigned in_group = split(pixel, v.width);
    c = v.first_channel + in_group;
    return v.first + (size_t)pixel * v.channels + in_group;
}

#define FOR_EACH_OF_GROUP(i, v) for (unsigned i = threadIdx.x; i < (v).count; i += BLOCK_THREADS)

__global__ static void group_norm_kernel(const float *x, float *y, const float *scale,
                                         const float *shift, float *statistics, struct groups g,
                                         struct divisor width, int relu) {
    struct group_view v = group_of_block(g, width);
    unsigned c;
    float sum = 0.f, squares = 0.f;
    FOR_EACH_OF_GROUP (i, v)
        sum += x[element(v, i, c)];
    float mean = over_block(sum, 0) / v.count;
    FOR_EACH_OF_GROUP (i, v) {
        float difference = x[element(v, i, c)] - mean;
        squares += difference * difference;
    }
    float inverse = 1 / sqrtf(over_block(squares, 0) / v.count + 1e-5f);
    FOR_EACH_OF_GROUP (i, v) {
        size_t at = element(v, i, c);
        float result = (x[at] - mean) * inverse * scale[c] + shift[c];
        y[at] = relu && result < 0.f ? 0.f : result; // NaN stays NaN
    }
    if (threadIdx.x == 0) {
        statistics[2 * blockIdx.x] = mean;
        statistics[2 * blockIdx.x + 1] = inverse;
    }
}

static struct divisor width_of(struct groups g) {
    return divisor(g.in.channels / g.groups);
}

void group_norm(const float *x, float *y, const float *scale, const float *shift, float *statistics,
                int images, struct groups g, int relu, cudaStream_t stream) {
    if (images > 0) // a grid of 0 blocks is an error
        LAUNCH_BLOCKS(group_norm_kernel, images * g.groups, dim3(BLOCK_THREADS), stream, x, y,
                      scale, shift, statistics, g, width_of(g), relu);
}

// With d = dy * scale: dx = (d - mean of d - normalised * mean of (d * normalised)) / deviation.
__global__ static void group_norm_backward_kernel(const float *x, const float *dy, float *dx,
                                                  const float *scale, const float *statistics,
                                                  struct groups g, struct divisor width) {
    struct group_view v = group_of_block(g, width);
    unsigned c;
    float mean = statistics[2 * blockIdx.x], inverse = statistics[2 * blockIdx.x + 1];
    float sum = 0.f, products = 0.f;
    FOR_EACH_OF_GROUP (i, v) {
        size_t at = element(v, i, c);
        float d = dy[at] * scale[c];
        sum += d;
        products += d * ((x[at] - mean) * inverse);
    }
    float mean_d = over_block(sum, 0) / v.count, mean_product = over_block(products, 0) / v.count;
    FOR_EACH_OF_GROUP (i, v) {
        size_t at = element(v, i, c);
        float d = dy[at] * scale[c];
        dx[at] = (d - mean_d - (x[at] - mean) * inverse * mean_product) * inverse;
    }
}

void group_norm_backward(const float *x, const float *dy, float *dx, const float *scale,
                         const float *statistics, int images, struct groups g,
                         cudaStream_t stream) {
    if (images > 0)
        LAUNCH_BLOCKS(group_norm_backward_kernel, images * g.groups, dim3(BLOCK_THREADS), stream, x,
                      dy, dx, scale, statistics, g, width_of(g));
}

__global__ static void multiply_by_normalised_kernel(const float *x, float *dy, size_t count,
                                                     const float *statistics, int groups,
                                                     struct divisor size, struct divisor channels,
                                                     struct divisor width) {
    FOR_EACH (i, count) {
        unsigned image = i, pixel = split(image, size), group = split(pixel, channels);
        split(group, width);
        const float *of_group = statistics + 2 * ((size_t)image * groups + group);
        dy[i] *= (x[i] - of_group[0]) * of_group[1];
    }
}

void multiply_by_normalised(const float *x, float *dy, const float *statistics, int images,
                            struct groups g, cudaStream_t stream) {
    size_t count = counted((size_t)images * shape_size(g.in));
    LAUNCH(multiply_by_normalised_kernel, count, stream, x, dy, count, statistics, g.groups,
           divisor(shape_size(g.in)), divisor(g.in.channels), width_of(g));
}
