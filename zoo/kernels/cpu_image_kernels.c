// The kernels of images for the CPU device.
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
