// The kernels of images for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/image_kernels.h"
}
#include "zoo/kernels/image_formulas.h"

template <class Element>
__global__ static void image_to_patches_kernel(const Element *x, Element *patches, size_t count,
                                               struct window_sizes s) {
    int channels = s.w.in.channels, row_size = s.w.in.width * channels;
    FOR_EACH (i, count) {
        unsigned image = i, at = split(&image, s.window_row), ky = split(&image, s.size);
        int column = split(&image, s.width) * s.w.stride - s.w.padding;
        int row = split(&image, s.height) * s.w.stride - s.w.padding + ky;
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
        unsigned image = i, c = split(&image, s.channels);
        unsigned column = split(&image, s.image_width) + s.w.padding;
        unsigned row = split(&image, s.image_height) + s.w.padding;
        int first_kx = split(&column, s.stride), first_ky = split(&row, s.stride);
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
DEVICE_FUNCTION size_t find_largest(const float *x, unsigned i, const struct window_sizes *s) {
    unsigned channels = s->channels.n, width = s->image_width.n, size = s->size.n;
    unsigned image = i, c = split(&image, s->channels);
    unsigned column = split(&image, s->width) * s->stride.n;
    unsigned row = split(&image, s->height) * s->stride.n;
    size_t first = (((size_t)image * s->image_height.n + row) * width + column) * channels + c;
    size_t best = first;
    float largest = x[first];
    for (unsigned ky = 0; ky < size; ky++)
        for (unsigned kx = 0; kx < size; kx++) {
            size_t other = first + (ky * width + kx) * channels;
            if (!(x[other] <= largest) && !isnan(largest)) { // also true for a first NaN
                best = other;
                largest = x[other];
            }
        }
    return best;
}

struct max_pool {
    const float *x;
    float *y;
    struct window_sizes s;
};

FORMULA(max_pool) {
    a.y[i] = a.x[find_largest(a.x, i, &a.s)];
}

void max_pool(const float *x, float *y, int images, const struct windows *w, cudaStream_t stream) {
    size_t count = counted(count_windows(w, images) * w->in.channels);
    struct max_pool a = {READS(x, (size_t)images * shape_size(w->in)), WRITES(y, count),
                         sizes_of(w)};
    LAUNCH_FORMULA(max_pool, a, count, stream);
}

struct max_pool_backward {
    const float *x, *dy;
    float *dx;
    struct window_sizes s;
};

FORMULA(max_pool_backward) {
    a.dx[find_largest(a.x, i, &a.s)] = a.dy[i];
}

void max_pool_backward(const float *x, const float *dy, float *dx, int images,
                       const struct windows *w, cudaStream_t stream) {
    size_t inputs = (size_t)images * shape_size(w->in);
    size_t count = counted(count_windows(w, images) * w->in.channels);
    fill(dx, inputs, 0, stream);
    struct max_pool_backward a = {READS(x, inputs), READS(dy, count), WRITES(dx, inputs),
                                  sizes_of(w)};
    LAUNCH_FORMULA(max_pool_backward, a, count, stream);
}
