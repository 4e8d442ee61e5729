// The kernels of images for a GPU.
#include "common/kernels/gpu_launch.h"
#include "common/kernels/image_change.h"

// Divides i by n. Returns the remainder, and leaves the quotient in i.
__device__ static size_t split(size_t &i, size_t n) {
    size_t quotient = i / n, remainder = i - quotient * n;
    i = quotient;
    return remainder;
}

static size_t count_windows(const struct windows *w, int images) {
    return (size_t)images * w->height * w->width;
}

template <class Element>
__global__ static void image_to_patches_kernel(const Element *x, Element *patches, size_t count,
                                               struct windows w) {
    FOR_EACH (i, count) {
        size_t image = i;
        long c = split(image, w.in.channels), kx = split(image, w.size);
        long ky = split(image, w.size), column = split(image, w.width) * w.stride - w.padding + kx;
        long row = split(image, w.height) * w.stride - w.padding + ky;
        int inside = row >= 0 && row < w.in.height && column >= 0 && column < w.in.width;
        patches[i] =
            inside ? x[((image * w.in.height + row) * w.in.width + column) * w.in.channels + c]
                   : (Element)0;
    }
}

void image_to_patches(const void *x, void *patches, int images, const struct windows *w,
                      size_t element_size, cudaStream_t stream) {
    size_t count = count_windows(w, images) * w->size * w->size * w->in.channels;
    if (element_size == sizeof(float))
        LAUNCH(image_to_patches_kernel<float>, count, stream, (const float *)x, (float *)patches,
               count, *w);
    else
        LAUNCH(image_to_patches_kernel<uint16_t>, count, stream, (const uint16_t *)x,
               (uint16_t *)patches, count, *w);
}

// A thread adds up all copies of one value.
__global__ static void patches_to_image_kernel(const float *dpatches, float *dx, size_t count,
                                               struct windows w) {
    FOR_EACH (i, count) {
        size_t image = i, c = split(image, w.in.channels);
        long x = split(image, w.in.width) + w.padding, y = split(image, w.in.height) + w.padding;
        float sum = 0.f;
        for (long ky = 0; ky < w.size; ky++)
            for (long kx = 0; kx < w.size; kx++) {
                long row = (y - ky) / w.stride, column = (x - kx) / w.stride;
                if (y < ky || x < kx || row * w.stride != y - ky || column * w.stride != x - kx ||
                    row >= w.height || column >= w.width)
                    continue;
                size_t window = (image * w.height + row) * w.width + column;
                sum += dpatches[((window * w.size + ky) * w.size + kx) * w.in.channels + c];
            }
        dx[i] = sum;
    }
}

void patches_to_image(const float *dpatches, float *dx, int images, const struct windows *w,
                      cudaStream_t stream) {
    size_t count = (size_t)images * shape_size(w->in);
    LAUNCH(patches_to_image_kernel, count, stream, dpatches, dx, count, *w);
}

// Returns the index of the largest value of a window of a channel. i: the index of the output.
__device__ static size_t find_largest(const float *x, size_t i, struct windows w) {
    size_t image = i, c = split(image, w.in.channels), column = split(image, w.width) * w.stride;
    size_t row = split(image, w.height) * w.stride;
    size_t first = ((image * w.in.height + row) * w.in.width + column) * w.in.channels + c;
    size_t best = first;
    for (int ky = 0; ky < w.size; ky++)
        for (int kx = 0; kx < w.size; kx++) {
            size_t other = first + ((size_t)ky * w.in.width + kx) * w.in.channels;
            if (x[other] > x[best] || (isnan(x[other]) && !isnan(x[best])))
                best = other;
        }
    return best;
}

__global__ static void max_pool_kernel(const float *x, float *y, size_t count, struct windows w) {
    FOR_EACH (i, count)
        y[i] = x[find_largest(x, i, w)];
}

void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream) {
    size_t count = count_windows(w, images) * w->in.channels;
    LAUNCH(max_pool_kernel, count, stream, x, y, count, *w);
}

__global__ static void max_pool_backward_kernel(const float *x, const float *dy, float *dx,
                                                size_t count, struct windows w) {
    FOR_EACH (i, count)
        dx[find_largest(x, i, w)] = dy[i];
}

void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream) {
    size_t count = count_windows(w, images) * w->in.channels;
    fill(dx, (size_t)images * shape_size(w->in), 0, stream);
    LAUNCH(max_pool_backward_kernel, count, stream, x, dy, dx, count, *w);
}

__global__ static void mean_pool_kernel(const float *x, float *y, size_t count, size_t pixels,
                                        size_t channels) {
    FOR_EACH (i, count) {
        size_t image = i, c = split(image, channels);
        float sum = 0.f;
        for (size_t p = 0; p < pixels; p++)
            sum += x[(image * pixels + p) * channels + c];
        y[i] = sum / pixels;
    }
}

void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream) {
    size_t count = (size_t)images * in.channels;
    LAUNCH(mean_pool_kernel, count, stream, x, y, count, (size_t)in.height * in.width, in.channels);
}

__global__ static void mean_pool_backward_kernel(const float *dy, float *dx, size_t count,
                                                 size_t pixels, size_t channels) {
    FOR_EACH (i, count) {
        size_t image = i, c = split(image, channels);
        dx[i] = dy[image / pixels * channels + c] / pixels;
    }
}

void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream) {
    size_t count = (size_t)images * shape_size(in);
    LAUNCH(mean_pool_backward_kernel, count, stream, dy, dx, count, (size_t)in.height * in.width,
           in.channels);
}

__global__ static void augment_images_kernel(const float *x, float *y, size_t count,
                                             struct augmentation a, uint64_t seed, uint64_t first) {
    FOR_EACH (i, count) {
        size_t image = i, c = split(image, a.in.channels);
        long column = split(image, a.in.width), row = split(image, a.in.height);
        struct image_change change = image_change(&a, seed, first + image);
        column = (change.mirrored ? a.in.width - 1 - column : column) + change.shift_x;
        row += change.shift_y;
        int inside = row >= 0 && row < a.in.height && column >= 0 && column < a.in.width;
        y[i] = inside ? x[((image * a.in.height + row) * a.in.width + column) * a.in.channels + c]
                      : a.black[c];
    }
}

void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream) {
    size_t count = (size_t)images * shape_size(a->in);
    LAUNCH(augment_images_kernel, count, stream, x, y, count, *a, seed, first);
}
