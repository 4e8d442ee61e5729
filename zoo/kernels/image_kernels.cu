// The kernels of images for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/image_kernels.h"
}
#include "zoo/kernels/image_change.h"

// The sizes of windows, as kernels divide by them. A row of a window is one piece of memory, of the
// image and of the patches.
struct window_sizes {
    struct windows w;
    struct divisor window_row, size, stride, width, height; // of windows
    struct divisor channels, image_width, image_height;
};

static struct window_sizes sizes_of(const struct windows *w) {
    return {*w,
            divisor((size_t)w->size * w->in.channels),
            divisor(w->size),
            divisor(w->stride),
            divisor(w->width),
            divisor(w->height),
            divisor(w->in.channels),
            divisor(w->in.width),
            divisor(w->in.height)};
}

static size_t count_windows(const struct windows *w, int images) {
    return (size_t)images * w->height * w->width;
}

template <class Element>
__global__ static void image_to_patches_kernel(const Element *x, Element *patches, size_t count,
                                               struct window_sizes s) {
    int channels = s.w.in.channels, row_size = s.w.in.width * channels;
    FOR_EACH (i, count) {
        unsigned image = i, at = split(image, s.window_row), ky = split(image, s.size);
        int column = split(image, s.width) * s.w.stride - s.w.padding;
        int row = split(image, s.height) * s.w.stride - s.w.padding + ky;
        int in_row = column * channels + at; // negative left of the image
        int inside = row >= 0 && row < s.w.in.height && in_row >= 0 && in_row < row_size;
        patches[i] =
            inside ? x[((size_t)image * s.w.in.height + row) * row_size + in_row] : (Element)0;
    }
}

void image_to_patches(const void *x, void *patches, int images, const struct windows *w,
                      size_t element_size, cudaStream_t stream) {
    size_t count = counted(count_windows(w, images) * w->size * w->size * w->in.channels);
    if (element_size == sizeof(float))
        LAUNCH(image_to_patches_kernel<float>, count, stream, (const float *)x, (float *)patches,
               count, sizes_of(w));
    else
        LAUNCH(image_to_patches_kernel<uint16_t>, count, stream, (const uint16_t *)x,
               (uint16_t *)patches, count, sizes_of(w));
}

// A multiprocessor computes a product in tiles of, for example, 128 rows. With the 64 channels and
// windows of 3 x 3 of --model cnn, 64 MiB are 58,000 rows, or three tiles for each of the 132
// multiprocessors of an H100.
size_t patch_workspace(void) {
    return 64 << 20;
}

// A thread adds up all copies of one value. Element [ky, kx] of the window [wy, wx] is a copy of
// pixel [stride * wy + ky, stride * wx + kx], so the next ky of a pixel is stride larger, in the
// window above.
__global__ static void patches_to_image_kernel(const float *dpatches, float *dx, size_t count,
                                               struct window_sizes s) {
    int size = s.w.size, stride = s.w.stride, channels = s.w.in.channels;
    long step = (size * size - stride) * (long)channels; // to the copy in the window on the left
    FOR_EACH (i, count) {
        unsigned image = i, c = split(image, s.channels);
        unsigned column = split(image, s.image_width) + s.w.padding;
        unsigned row = split(image, s.image_height) + s.w.padding;
        int first_kx = split(column, s.stride), first_ky = split(row, s.stride);
        float sum = 0.f;
        for (int ky = first_ky, wy = row; ky < size && wy >= 0; ky += stride, wy--) {
            size_t window = ((size_t)image * s.w.height + wy) * s.w.width + column;
            size_t from = ((window * size + ky) * size + first_kx) * channels + c;
            for (int kx = first_kx, wx = column; kx < size && wx >= 0; kx += stride, wx--) {
                if (wy < s.w.height && wx < s.w.width)
                    sum += dpatches[from];
                from -= step;
            }
        }
        dx[i] = sum;
    }
}

void patches_to_image(const float *dpatches, float *dx, int images, const struct windows *w,
                      cudaStream_t stream) {
    size_t count = counted((size_t)images * shape_size(w->in));
    LAUNCH(patches_to_image_kernel, count, stream, dpatches, dx, count, sizes_of(w));
}

// Returns the index of the largest value of a window of a channel. i: the index of the output.
__device__ static size_t find_largest(const float *x, unsigned i, const struct window_sizes &s) {
    unsigned image = i, c = split(image, s.channels), column = split(image, s.width) * s.w.stride;
    unsigned row = split(image, s.height) * s.w.stride, channels = s.w.in.channels;
    size_t first = (((size_t)image * s.w.in.height + row) * s.w.in.width + column) * channels + c;
    size_t best = first;
    float largest = x[first];
    for (int ky = 0; ky < s.w.size; ky++)
        for (int kx = 0; kx < s.w.size; kx++) {
            size_t other = first + (ky * s.w.in.width + kx) * channels;
            if (!(x[other] <= largest) && !isnan(largest)) { // also true for a first NaN
                best = other;
                largest = x[other];
            }
        }
    return best;
}

__global__ static void max_pool_kernel(const float *x, float *y, size_t count,
                                       struct window_sizes s) {
    FOR_EACH (i, count)
        y[i] = x[find_largest(x, i, s)];
}

void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream) {
    size_t count = counted(count_windows(w, images) * w->in.channels);
    LAUNCH(max_pool_kernel, count, stream, x, y, count, sizes_of(w));
}

__global__ static void max_pool_backward_kernel(const float *x, const float *dy, float *dx,
                                                size_t count, struct window_sizes s) {
    FOR_EACH (i, count)
        dx[find_largest(x, i, s)] = dy[i];
}

void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream) {
    size_t count = counted(count_windows(w, images) * w->in.channels);
    fill(dx, (size_t)images * shape_size(w->in), 0, stream);
    LAUNCH(max_pool_backward_kernel, count, stream, x, dy, dx, count, sizes_of(w));
}

__global__ static void mean_pool_kernel(const float *x, float *y, size_t count, size_t pixels,
                                        struct divisor channels) {
    FOR_EACH (i, count) {
        unsigned image = i, c = split(image, channels);
        float sum = 0.f;
        for (size_t p = 0; p < pixels; p++)
            sum += x[(image * pixels + p) * channels.n + c];
        y[i] = sum / pixels;
    }
}

void mean_pool(const float *x, float *y, int images, struct shape in, cudaStream_t stream) {
    size_t count = counted((size_t)images * in.channels);
    LAUNCH(mean_pool_kernel, count, stream, x, y, count, (size_t)in.height * in.width,
           divisor(in.channels));
}

__global__ static void mean_pool_backward_kernel(const float *dy, float *dx, size_t count,
                                                 struct divisor pixels, struct divisor channels) {
    FOR_EACH (i, count) {
        unsigned image = i, c = split(image, channels);
        split(image, pixels);
        dx[i] = dy[(size_t)image * channels.n + c] / pixels.n;
    }
}

void mean_pool_backward(const float *dy, float *dx, int images, struct shape in,
                        cudaStream_t stream) {
    size_t count = counted((size_t)images * shape_size(in));
    LAUNCH(mean_pool_backward_kernel, count, stream, dy, dx, count,
           divisor((size_t)in.height * in.width), divisor(in.channels));
}

__global__ static void augment_images_kernel(const float *x, float *y, size_t count,
                                             struct augmentation a, uint64_t seed, uint64_t first,
                                             struct divisor channels, struct divisor width,
                                             struct divisor height) {
    FOR_EACH (i, count) {
        unsigned image = i, c = split(image, channels);
        int column = split(image, width), row = split(image, height);
        struct image_change change = image_change(&a, seed, first + image);
        column = (change.mirrored ? a.in.width - 1 - column : column) + change.shift_x;
        row += change.shift_y;
        int inside = row >= 0 && row < a.in.height && column >= 0 && column < a.in.width;
        size_t from = ((size_t)image * a.in.height + row) * a.in.width + column;
        y[i] = inside ? x[from * a.in.channels + c] : a.black[c];
    }
}

void augment_images(const float *x, float *y, int images, const struct augmentation *a,
                    uint64_t seed, uint64_t first, cudaStream_t stream) {
    size_t count = counted((size_t)images * shape_size(a->in));
    LAUNCH(augment_images_kernel, count, stream, x, y, count, *a, seed, first,
           divisor(a->in.channels), divisor(a->in.width), divisor(a->in.height));
}
