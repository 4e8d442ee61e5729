// The kernels of images that handle each element alone, once for both devices, as
// common/kernels/formulas.h explains.
#pragma once
#include "common/kernels/divisor.h"
#include "zoo/kernels/image_kernels.h"
#include <math.h>

// The sizes of windows, as kernels divide by them. A row of a window is one piece of memory, of the
// image and of the patches.
struct window_sizes {
    struct windows w;
    struct divisor window_row, size, stride, width, height; // of windows
    struct divisor channels, image_width, image_height;
};

static inline struct window_sizes sizes_of(const struct windows *w) {
    struct window_sizes s = {*w,
                             divisor((size_t)w->size * w->in.channels),
                             divisor(w->size),
                             divisor(w->stride),
                             divisor(w->width),
                             divisor(w->height),
                             divisor(w->in.channels),
                             divisor(w->in.width),
                             divisor(w->in.height)};
    return s;
}

static inline size_t count_windows(const struct windows *w, int images) {
    return (size_t)images * w->height * w->width;
}

struct mean_pool {
    const float *x;
    float *y;
    size_t pixels;
    struct divisor channels;
};

FORMULA(mean_pool) {
    unsigned image = i, c = split(&image, a.channels);
    float sum = 0.f;
    for (size_t p = 0; p < a.pixels; p++)
        sum += a.x[(image * a.pixels + p) * a.channels.n + c];
    a.y[i] = sum / a.pixels;
}

void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream) {
    size_t pixels = (size_t)in.height * in.width, channels = in.channels;
    size_t count = counted((size_t)images * channels);
    struct mean_pool a = {READS(x, count * pixels), WRITES(y, count), pixels, divisor(channels)};
    COMPUTES(count * (85 + 6. * pixels));
    LAUNCH_FORMULA(mean_pool, a, count, stream);
}

struct mean_pool_backward {
    const float *dy;
    float *dx;
    struct divisor pixels, channels;
};

FORMULA(mean_pool_backward) {
    unsigned image = i, c = split(&image, a.channels);
    split(&image, a.pixels);
    a.dx[i] = a.dy[(size_t)image * a.channels.n + c] / a.pixels.n;
}

void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream) {
    size_t pixels = (size_t)in.height * in.width, channels = in.channels;
    size_t count = counted((size_t)images * pixels * channels);
    struct mean_pool_backward a = {READS(dy, (size_t)images * channels), WRITES(dx, count),
                                   divisor(pixels), divisor(channels)};
    COMPUTES(34. * count);
    LAUNCH_FORMULA(mean_pool_backward, a, count, stream);
}

struct augment_images {
    const float *x;
    float *y;
    struct augmentation a;
    uint64_t seed, first;
    struct divisor channels, width, height;
};

FORMULA(augment_images) {
    struct augmentation own = a.a; // a.a.black[c] would put all of a on the stack of a GPU thread
    unsigned image = i, c = split(&image, a.channels);
    int column = split(&image, a.width), row = split(&image, a.height);
    struct image_change change = image_change(&own, a.seed, a.first + image);
    column = (change.mirrored ? own.in.width - 1 - column : column) + change.shift_x;
    row += change.shift_y;
    int inside = row >= 0 && row < own.in.height && column >= 0 && column < own.in.width;
    size_t from = ((size_t)image * a.height.n + row) * a.width.n + column;
    a.y[i] = inside ? a.x[from * a.channels.n + c] : own.black[c];
}

void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream) {
    size_t count = counted((size_t)images * shape_size(a->in));
    struct augment_images k = {
        READS(x, count),      WRITES(y, count),     *a, seed, first, divisor(a->in.channels),
        divisor(a->in.width), divisor(a->in.height)};
    COMPUTES(113. * count);
    LAUNCH_FORMULA(augment_images, k, count, stream);
}
