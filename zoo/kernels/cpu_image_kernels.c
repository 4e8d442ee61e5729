// The kernels of images for the CPU device.
#include "common/base/minmax.h"
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/image_formulas.h"
#include <stdlib.h>
#include <string.h>

static size_t window_elements(const struct windows *w) {
    return (size_t)w->size * (size_t)w->size * (size_t)w->in.channels;
}

// The part of a row of a window that lies inside the image.
struct clipped {
    size_t skipped, count; // elements left of the image, and inside
    size_t x;              // the first column inside
};

static struct clipped clip_row(const struct windows *w, size_t window) {
    long first = (long)window * w->stride - w->padding, end = first + w->size;
    long from = first < 0 ? 0 : first, to = end > w->in.width ? w->in.width : end;
    size_t channels = (size_t)w->in.channels;
    struct clipped none = {0}, some = {.skipped = (size_t)(from - first) * channels,
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

ALSO_AVX2 static void run_image_to_patches(void *arguments, size_t from, size_t to) {
    struct image_to_patches a = *(struct image_to_patches *)arguments;
    const struct windows *w = &a.w;
    size_t height = (size_t)w->height, width = (size_t)w->width;
    size_t pixel = (size_t)w->in.channels * a.element, row = (size_t)w->in.width * pixel;
    size_t window_row = (size_t)w->size * pixel;
    char *to_row = a.patches + from * width * (size_t)w->size * window_row;
    for (size_t line = from; line < to; line++) // a row of windows
        for (size_t window = 0; window < width; window++) {
            struct clipped r = clip_row(w, window);
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
ALSO_AVX2 static void add_windows(const struct windows *w, const float *dpatches, size_t line,
                                  size_t ky, float *row) {
    size_t window_row = (size_t)w->size * (size_t)w->in.channels;
    for (size_t window = 0; window < (size_t)w->width; window++) {
        struct clipped r = clip_row(w, window);
        const float *from =
            dpatches + ((line * (size_t)w->width + window) * (size_t)w->size + ky) * window_row;
        float *to = row + r.x * (size_t)w->in.channels;
        for (size_t i = 0; i < r.count; i++)
            to[i] += from[r.skipped + i];
    }
}

ALSO_AVX2 static void run_patches_to_image(void *arguments, size_t from, size_t to) {
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

enum { CHANNELS = 64 }; // at a time

// Finds the largest value of each of some channels of a window, whose first values are at x. best:
// how far after them the largest ones are. The first one of equal values wins, and the first NaN.
static inline void find_largest(const struct windows *w, const float *x, size_t channels,
                                float *largest, int *best) {
    for (size_t c = 0; c < channels; c++) {
        largest[c] = -INFINITY;
        best[c] = 0;
    }
    for (int ky = 0; ky < w->size; ky++)
        for (int kx = 0; kx < w->size; kx++) {
            int pixel = (ky * w->in.width + kx) * w->in.channels;
            const float *others = x + pixel;
            for (size_t c = 0; c < channels; c++) {
                int wins = !(others[c] <= largest[c]) & !isnan(largest[c]);
                largest[c] = wins ? others[c] : largest[c];
                best[c] = wins ? pixel : best[c];
            }
        }
}

// Computes y, or dx if there is a dy, for the windows from..to.
ALSO_AVX2 static void run_max_pool(void *arguments, size_t from, size_t to) {
    struct max_pool a = *(struct max_pool *)arguments;
    size_t width = (size_t)a.w.width, height = (size_t)a.w.height;
    size_t channels = (size_t)a.w.in.channels, stride = (size_t)a.w.stride;
    for (size_t window = from; window < to; window++) {
        size_t line = window / width, column = window % width * stride;
        size_t row = line / height * (size_t)a.w.in.height + line % height * stride;
        size_t first = (row * (size_t)a.w.in.width + column) * channels;
        for (size_t c = 0; c < channels; c += CHANNELS) {
            size_t count = min_size(CHANNELS, channels - c), to_y = window * channels + c;
            float largest[CHANNELS];
            int best[CHANNELS];
            find_largest(&a.w, a.x + first + c, count, largest, best);
            if (!a.dy)
                memcpy(a.y + to_y, largest, count * sizeof *largest);
            for (size_t i = 0; a.dy && i < count; i++)
                a.dx[first + c + (size_t)best[i] + i] = a.dy[to_y + i];
        }
    }
}

static void launch_max_pool(struct max_pool a, int images, cudaStream_t stream) {
    size_t windows = count_windows(&a.w, images), elements = window_elements(&a.w);
    COMPUTES(windows * (59. * a.w.in.channels + 27. * elements));
    LAUNCH(stream, run_max_pool, a, windows, rows_per_grain(elements));
}

void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream) {
    size_t inputs = (size_t)images * (size_t)shape_size(w->in);
    size_t outputs = count_windows(w, images) * (size_t)w->in.channels;
    launch_max_pool((struct max_pool){.x = READS(x, inputs), .y = WRITES(y, outputs), .w = *w},
                    images, stream);
}

void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream) {
    size_t inputs = (size_t)images * (size_t)shape_size(w->in);
    size_t outputs = count_windows(w, images) * (size_t)w->in.channels;
    fill(dx, inputs, 0, stream);
    struct max_pool a = {
        .x = READS(x, inputs), .dy = READS(dy, outputs), .dx = WRITES(dx, inputs), .w = *w};
    launch_max_pool(a, images, stream);
}
