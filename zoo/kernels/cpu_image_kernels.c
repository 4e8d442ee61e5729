// The kernels of images for the CPU device.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/image_change.h"
#include "zoo/kernels/image_kernels.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static size_t count_windows(const struct windows *w, int images) {
    return (size_t)images * (size_t)w->height * (size_t)w->width;
}

static size_t window_elements(const struct windows *w) {
    return (size_t)w->size * (size_t)w->size * (size_t)w->in.channels;
}

// The part of a row of a window that lies inside the image.
struct run {
    size_t skipped, count; // elements left of the image, and inside
    size_t x;              // the first column inside
};

static struct run run_inside(const struct windows *w, size_t window) {
    long first = (long)window * w->stride - w->padding, end = first + w->size;
    long from = first < 0 ? 0 : first, to = end > w->in.width ? w->in.width : end;
    size_t channels = (size_t)w->in.channels;
    struct run none = {0}, some = {.skipped = (size_t)(from - first) * channels,
                                   .count = (size_t)(to - from) * channels,
                                   .x = (size_t)from};
    return from < to ? some : none;
}

struct image_to_patches {
    const char *x;
    char *patches;
    struct windows w;
    size_t element;
};

static void run_image_to_patches(void *arguments, size_t from, size_t to) {
    struct image_to_patches a = *(struct image_to_patches *)arguments;
    const struct windows *w = &a.w;
    size_t height = (size_t)w->height, width = (size_t)w->width;
    size_t pixel = (size_t)w->in.channels * a.element, row = (size_t)w->in.width * pixel;
    size_t window_row = (size_t)w->size * pixel;
    char *to_row = a.patches + from * width * (size_t)w->size * window_row;
    for (size_t line = from; line < to; line++) // a row of windows
        for (size_t window = 0; window < width; window++) {
            struct run r = run_inside(w, window);
            size_t before = r.skipped * a.element, inside = r.count * a.element;
            long y = (long)(line % height) * w->stride - w->padding;
            for (long end = y + w->size; y < end; y++, to_row += window_row) {
                if (y < 0 || y >= w->in.height || !inside) {
                    memset(to_row, 0, window_row);
                    continue;
                }
                size_t image_row = line / height * (size_t)w->in.height + (size_t)y;
                if (inside < window_row)
                    memset(to_row, 0, window_row);
                memcpy(to_row + before, a.x + image_row * row + r.x * pixel, inside);
            }
        }
}

void image_to_patches(const void *x, void *patches, int images, const struct windows *w,
                      size_t element_size, cudaStream_t stream) {
    const char *from = x;
    char *to = patches;
    size_t bytes = (size_t)images * (size_t)shape_size(w->in) * element_size;
    size_t elements = count_windows(w, images) * window_elements(w);
    struct image_to_patches a = {READS(from, bytes), WRITES(to, elements * element_size), *w,
                                 element_size};
    COMPUTES(50. * elements);
    LAUNCH(stream, run_image_to_patches, a, (size_t)images * (size_t)w->height,
           rows_per_grain((size_t)w->width * window_elements(w)));
}

// A modelled GPU computes the parts of a GPU.
size_t patch_workspace(void) {
    return getenv("CPU_DEVICE_MODEL") ? 64 << 20 : 8 << 20;
}

struct patches_to_image {
    const float *dpatches;
    float *dx;
    struct windows w;
};

// Adds row ky of the windows in this line to a row of the image.
static void add_windows(const struct windows *w, const float *dpatches, size_t line, size_t ky,
                        float *row) {
    size_t window_row = (size_t)w->size * (size_t)w->in.channels;
    for (size_t window = 0; window < (size_t)w->width; window++) {
        struct run r = run_inside(w, window);
        const float *from =
            dpatches + ((line * (size_t)w->width + window) * (size_t)w->size + ky) * window_row;
        float *to = row + r.x * (size_t)w->in.channels;
        for (size_t i = 0; i < r.count; i++)
            to[i] += from[r.skipped + i];
    }
}

static void run_patches_to_image(void *arguments, size_t from, size_t to) {
    struct patches_to_image a = *(struct patches_to_image *)arguments;
    const struct windows *w = &a.w;
    size_t height = (size_t)w->in.height, width = (size_t)w->in.width * (size_t)w->in.channels;
    for (size_t row = from; row < to; row++) {
        memset(a.dx + row * width, 0, width * sizeof *a.dx);
        for (int ky = 0; ky < w->size; ky++) {
            long y = (long)(row % height) + w->padding - ky; // of the window's first row
            if (y >= 0 && y % w->stride == 0 && y / w->stride < w->height)
                add_windows(w, a.dpatches,
                            row / height * (size_t)w->height + (size_t)(y / w->stride), (size_t)ky,
                            a.dx + row * width);
        }
    }
}

void patches_to_image(const float *dpatches, float *dx, int images, const struct windows *w,
                      cudaStream_t stream) {
    size_t rows = (size_t)images * (size_t)w->in.height;
    size_t width = (size_t)w->in.width * (size_t)w->in.channels;
    struct patches_to_image a = {READS(dpatches, count_windows(w, images) * window_elements(w)),
                                 WRITES(dx, rows * width), *w};
    COMPUTES(rows * width * (67 + 25. * w->size * w->size));
    LAUNCH(stream, run_patches_to_image, a, rows, rows_per_grain(width * (size_t)w->size));
}

struct max_pool {
    const float *x, *dy;
    float *y, *dx;
    struct windows w;
};

// Returns the offset of the largest value of a channel in a window, which begins at x.
static size_t find_largest(const float *x, const struct windows *w) {
    size_t channels = (size_t)w->in.channels, row = (size_t)w->in.width * channels, best = 0;
    for (size_t ky = 0; ky < (size_t)w->size; ky++)
        for (size_t kx = 0; kx < (size_t)w->size; kx++) {
            size_t i = ky * row + kx * channels;
            if (x[i] > x[best] || (isnan(x[i]) && !isnan(x[best])))
                best = i;
        }
    return best;
}

// Returns the offset of the first value of a window in all images.
static size_t window_begin(const struct windows *w, size_t line, size_t window) {
    size_t image = line / (size_t)w->height, y = line % (size_t)w->height * (size_t)w->stride;
    size_t x = window * (size_t)w->stride;
    return ((image * (size_t)w->in.height + y) * (size_t)w->in.width + x) * (size_t)w->in.channels;
}

static void run_max_pool(void *arguments, size_t from, size_t to) {
    struct max_pool a = *(struct max_pool *)arguments;
    size_t channels = (size_t)a.w.in.channels, width = (size_t)a.w.width;
    for (size_t line = from; line < to; line++)
        for (size_t window = 0; window < width; window++) {
            const float *x = a.x + window_begin(&a.w, line, window);
            float *y = a.y + (line * width + window) * channels;
            for (size_t c = 0; c < channels; c++)
                y[c] = x[c + find_largest(x + c, &a.w)];
        }
}

void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream) {
    size_t inputs = (size_t)images * (size_t)shape_size(w->in);
    size_t outputs = count_windows(w, images) * (size_t)w->in.channels;
    struct max_pool a = {.x = READS(x, inputs), .y = WRITES(y, outputs), .w = *w};
    COMPUTES(outputs * (59 + 27. * w->size * w->size));
    LAUNCH(stream, run_max_pool, a, (size_t)images * (size_t)w->height,
           rows_per_grain((size_t)w->width * window_elements(w)));
}

static void run_max_pool_backward(void *arguments, size_t from, size_t to) {
    struct max_pool a = *(struct max_pool *)arguments;
    size_t channels = (size_t)a.w.in.channels, width = (size_t)a.w.width;
    size_t lines = (size_t)a.w.height, inputs = (size_t)shape_size(a.w.in);
    memset(a.dx + from * inputs, 0, (to - from) * inputs * sizeof *a.dx);
    for (size_t line = from * lines; line < to * lines; line++)
        for (size_t window = 0; window < width; window++) {
            size_t begin = window_begin(&a.w, line, window);
            const float *dy = a.dy + (line * width + window) * channels;
            for (size_t c = 0; c < channels; c++)
                a.dx[begin + c + find_largest(a.x + begin + c, &a.w)] = dy[c];
        }
}

void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream) {
    size_t inputs = (size_t)shape_size(w->in), all = (size_t)images * inputs;
    size_t outputs = count_windows(w, images) * (size_t)w->in.channels;
    struct max_pool a = {
        .x = READS(x, all), .dy = READS(dy, outputs), .dx = WRITES(dx, all), .w = *w};
    COMPUTES(outputs * (59 + 27. * w->size * w->size));
    LAUNCH(stream, run_max_pool_backward, a, (size_t)images, rows_per_grain(inputs));
}

struct mean_pool {
    const float *from;
    float *to;
    size_t pixels, channels;
};

static void run_mean_pool(void *arguments, size_t from, size_t to) {
    struct mean_pool a = *(struct mean_pool *)arguments;
    for (size_t image = from; image < to; image++) {
        const float *x = a.from + image * a.pixels * a.channels;
        float *y = a.to + image * a.channels;
        memset(y, 0, a.channels * sizeof *y);
        for (size_t p = 0; p < a.pixels; p++)
            for (size_t c = 0; c < a.channels; c++)
                y[c] += x[p * a.channels + c];
        for (size_t c = 0; c < a.channels; c++)
            y[c] /= (float)a.pixels;
    }
}

void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream) {
    size_t n = (size_t)images, inputs = (size_t)shape_size(in), channels = (size_t)in.channels;
    struct mean_pool a = {READS(x, n * inputs), WRITES(y, n * channels), inputs / channels,
                          channels};
    COMPUTES(n * channels * (85 + 6. * (inputs / channels)));
    LAUNCH(stream, run_mean_pool, a, n, rows_per_grain(inputs));
}

static void run_mean_pool_backward(void *arguments, size_t from, size_t to) {
    struct mean_pool a = *(struct mean_pool *)arguments;
    for (size_t image = from; image < to; image++)
        for (size_t p = 0; p < a.pixels; p++)
            for (size_t c = 0; c < a.channels; c++)
                a.to[(image * a.pixels + p) * a.channels + c] =
                    a.from[image * a.channels + c] / (float)a.pixels;
}

void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream) {
    size_t n = (size_t)images, inputs = (size_t)shape_size(in), channels = (size_t)in.channels;
    struct mean_pool a = {READS(dy, n * channels), WRITES(dx, n * inputs), inputs / channels,
                          channels};
    COMPUTES(34. * (n * inputs));
    LAUNCH(stream, run_mean_pool_backward, a, n, rows_per_grain(inputs));
}

struct augment_images {
    const float *x;
    float *y;
    struct augmentation a;
    uint64_t seed, first;
};

static void run_augment_images(void *arguments, size_t from, size_t to) {
    struct augment_images a = *(struct augment_images *)arguments;
    int height = a.a.in.height, width = a.a.in.width;
    size_t channels = (size_t)a.a.in.channels, row_size = (size_t)width * channels;
    for (size_t image = from; image < to; image++) {
        struct image_change change = image_change(&a.a, a.seed, a.first + image);
        const float *x = a.x + image * (size_t)height * row_size;
        float *y = a.y + image * (size_t)height * row_size;
        for (int row = change.shift_y; row < change.shift_y + height; row++)
            for (int i = 0; i < width; i++, y += channels) {
                int column = (change.mirrored ? width - 1 - i : i) + change.shift_x;
                int inside = row >= 0 && row < height && column >= 0 && column < width;
                memcpy(y,
                       inside ? x + (size_t)row * row_size + (size_t)column * channels : a.a.black,
                       channels * sizeof *y);
            }
    }
}

void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream) {
    size_t inputs = (size_t)shape_size(a->in), all = (size_t)images * inputs;
    struct augment_images k = {READS(x, all), WRITES(y, all), *a, seed, first};
    COMPUTES(113. * all);
    LAUNCH(stream, run_augment_images, k, (size_t)images, rows_per_grain(inputs));
}
