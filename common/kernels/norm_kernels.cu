// The kernels of group normalisation for a GPU. A block computes one group of one image.
#include "common/kernels/gpu_launch.h"

// One group of one image, as a block sees it. Element i is a channel of a pixel.
struct group_view {
    size_t first, count, width, channels, first_channel;
};

__device__ static struct group_view group_of_block(struct groups g) {
    size_t image = blockIdx.x / g.groups, group = blockIdx.x % g.groups;
    size_t width = g.in.channels / g.groups, pixels = (size_t)g.in.height * g.in.width;
    return {image * pixels * g.in.channels + group * width, pixels * width, width,
            (size_t)g.in.channels, group * width};
}

__device__ static size_t element(const struct group_view &v, size_t i) {
    return v.first + i / v.width * v.channels + i % v.width;
}

__global__ static void group_norm_kernel(const float *x, float *y, const float *scale,
                                         const float *shift, float *statistics, struct groups g,
                                         int relu) {
    struct group_view v = group_of_block(g);
    float sum = 0.f, squares = 0.f;
    for (size_t i = threadIdx.x; i < v.count; i += BLOCK_THREADS)
        sum += x[element(v, i)];
    float mean = over_block(sum, 0) / v.count;
    for (size_t i = threadIdx.x; i < v.count; i += BLOCK_THREADS) {
        float difference = x[element(v, i)] - mean;
        squares += difference * difference;
    }
    float inverse = 1 / sqrtf(over_block(squares, 0) / v.count + 1e-5f);
    for (size_t i = threadIdx.x; i < v.count; i += BLOCK_THREADS) {
        size_t at = element(v, i), c = v.first_channel + i % v.width;
        float result = (x[at] - mean) * inverse * scale[c] + shift[c];
        y[at] = relu && result < 0.f ? 0.f : result; // NaN stays NaN
    }
    if (threadIdx.x == 0) {
        statistics[2 * blockIdx.x] = mean;
        statistics[2 * blockIdx.x + 1] = inverse;
    }
}

void group_norm(const float *x, float *y, const float *scale, const float *shift, float *statistics,
                int images, struct groups g, int relu, cudaStream_t stream) {
    if (images > 0) // a grid of 0 blocks is an error
        LAUNCH_BLOCKS(group_norm_kernel, images * g.groups, dim3(BLOCK_THREADS), stream, x, y,
                      scale, shift, statistics, g, relu);
}

// With d = dy * scale: dx = (d - mean of d - normalised * mean of (d * normalised)) / deviation.
__global__ static void group_norm_backward_kernel(const float *x, const float *dy, float *dx,
                                                  const float *scale, const float *statistics,
                                                  struct groups g) {
    struct group_view v = group_of_block(g);
    float mean = statistics[2 * blockIdx.x], inverse = statistics[2 * blockIdx.x + 1];
    float sum = 0.f, products = 0.f;
    for (size_t i = threadIdx.x; i < v.count; i += BLOCK_THREADS) {
        size_t at = element(v, i);
        float d = dy[at] * scale[v.first_channel + i % v.width];
        sum += d;
        products += d * ((x[at] - mean) * inverse);
    }
    float mean_d = over_block(sum, 0) / v.count, mean_product = over_block(products, 0) / v.count;
    for (size_t i = threadIdx.x; i < v.count; i += BLOCK_THREADS) {
        size_t at = element(v, i);
        float d = dy[at] * scale[v.first_channel + i % v.width];
        dx[at] = (d - mean_d - (x[at] - mean) * inverse * mean_product) * inverse;
    }
}

void group_norm_backward(const float *x, const float *dy, float *dx, const float *scale,
                         const float *statistics, int images, struct groups g,
                         cudaStream_t stream) {
    if (images > 0)
        LAUNCH_BLOCKS(group_norm_backward_kernel, images * g.groups, dim3(BLOCK_THREADS), stream, x,
                      dy, dx, scale, statistics, g);
}

__global__ static void multiply_by_normalised_kernel(const float *x, float *dy, size_t count,
                                                     const float *statistics, struct groups g) {
    size_t size = (size_t)g.in.height * g.in.width * g.in.channels;
    FOR_EACH (i, count) {
        size_t group = i % g.in.channels / (g.in.channels / g.groups);
        const float *of_group = statistics + 2 * (i / size * g.groups + group);
        dy[i] *= (x[i] - of_group[0]) * of_group[1];
    }
}

void multiply_by_normalised(const float *x, float *dy, const float *statistics, int images,
                            struct groups g, cudaStream_t stream) {
    size_t count = (size_t)images * shape_size(g.in);
    LAUNCH(multiply_by_normalised_kernel, count, stream, x, dy, count, statistics, g);
}
