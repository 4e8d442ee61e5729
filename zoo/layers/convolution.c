// A convolution is a dense layer whose rows are not samples but windows of the images. So forward
// copies the windows to the rows of a matrix, called patches, and multiplies them by the weights.
// docs/convolution.md explains this with a picture.
#include "common/base/minmax.h"
#include "zoo/layers/kinds.h"
#include <math.h>

static int patch_size(const struct layer *l) {
    return settings_of(l)->convolution.windows.size * settings_of(l)->convolution.windows.size *
           l->in.channels;
}

static int windows_per_image(const struct layer *l) {
    return l->out.height * l->out.width;
}

static size_t patch_bytes(const struct layer *l, int images) {
    return (size_t)images * windows_per_image(l) * patch_size(l) * sizeof(float);
}

// Returns the number of images that are computed at a time.
static int images_per_part(const struct layer *l, int b) {
    return max_size(1, min_size(b, patch_workspace() / patch_bytes(l, 1)));
}

// Scratch memory holds the patches of a part, after them its images in bfloat16, and after those
// its dy in bfloat16. Sums and parameters as floats are there at other times.
static size_t images_at(const struct layer *l, int b) {
    return patch_bytes(l, images_per_part(l, b));
}

static size_t dy_at(const struct layer *l, int b) {
    return images_at(l, b) + (size_t)images_per_part(l, b) * l->inputs * sizeof(uint16_t);
}

static size_t convolution_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t dy_bytes = (size_t)images_per_part(l, b) * l->outputs * sizeof(uint16_t);
    size_t parts = type == CUDA_R_32F ? images_at(l, b) : dy_at(l, b) + dy_bytes;
    return max_size(parts, l->outputs * sizeof(float)); // for sum_pixels, and for a bias in float
}

static void convolution_initialise(const struct layer *l, float *parameters, size_t first_value,
                                   size_t count, uint64_t seed, cudaStream_t stream) {
    fill_uniform(parameters, count, 1.f / sqrtf((float)patch_size(l)), seed, l->first + first_value,
                 stream);
}

// Returns the patches of a part of the batch, of the type of the pass.
static const void *patches_of(const struct layer *l, const struct pass *pass, const float *x,
                              int first, int images, int b) {
    const void *part =
        rounded(pass, x + (size_t)first * l->inputs, (size_t)images * l->inputs, images_at(l, b));
    image_to_patches(part, pass->scratch, images, &settings_of(l)->convolution.windows,
                     type_size(pass->type), pass->stream);
    return pass->scratch;
}

static void convolution_forward(const struct layer *l, const struct pass *pass,
                                const void *parameters, const float *x, float *y, int b) {
    int channels = l->out.channels, windows = windows_per_image(l), part = images_per_part(l, b);
    for (int first = 0; first < b; first += part) {
        int images = min_size(part, b - first);
        const void *patches = patches_of(l, pass, x, first, images, b);
        matmul_rounded(pass, 0, 1, images * windows, channels, patch_size(l), patches, parameters,
                       0, y + (size_t)first * l->outputs, CUDA_R_32F);
    }
    int relu = l->kind == &convolution_relu;
    if (settings_of(l)->convolution.has_bias) {
        size_t weights = (size_t)channels * patch_size(l);
        const float *bias = as_floats(pass, parameters, weights, channels);
        add_bias(y, bias, b * windows, channels, relu, pass->stream);
    } else if (relu) {
        relu_backward(y, y, (size_t)b * l->outputs, pass->stream); // y = 0 where y <= 0
    }
}

// dpatches = dy W, and each value of dx is the sum over the patches that contain it.
static void convolution_dx(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *dy, float *dx, int b) {
    int windows = windows_per_image(l), part = images_per_part(l, b);
    for (int first = 0; first < b; first += part) {
        int images = min_size(part, b - first);
        const void *dy_read = rounded(pass, dy + (size_t)first * l->outputs,
                                      (size_t)images * l->outputs, dy_at(l, b));
        matmul_rounded(pass, 0, 0, images * windows, patch_size(l), l->out.channels, dy_read,
                       parameters, 0, pass->scratch, CUDA_R_32F);
        patches_to_image(pass->scratch, dx + (size_t)first * l->inputs, images,
                         &settings_of(l)->convolution.windows, pass->stream);
    }
}

// sums[c] = sum of x[image, pixel, c] over all images and pixels. It first adds up every pixels-th
// row of channels numbers (or, if these are many, every pixels/2-th, pixels/4-th, ...), and then
// the results, because many sums keep a device busier than a few.
static void sum_pixels(const struct pass *pass, const float *x, float *sums, int images, int pixels,
                       int channels) {
    enum { ENOUGH = 1 << 16 }; // sums at the same time, which fill every GPU
    int rows = images, parts = pixels;
    for (; parts % 2 == 0 && (size_t)parts * channels > ENOUGH; parts /= 2)
        rows *= 2;
    sum_rows(x, pass->scratch, rows, parts * channels, pass->stream);
    sum_rows(pass->scratch, sums, parts, channels, pass->stream);
}

static void convolution_backward(const struct layer *l, const struct pass *pass,
                                 const void *parameters, const float *x, float *y, float *dy,
                                 float *dx, float *gradients, int b) {
    int channels = l->out.channels, windows = windows_per_image(l), part = images_per_part(l, b);
    if (l->kind == &convolution_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (dx && !l->dx_unused) // before the gradients, which may overwrite the parameters
        convolution_dx(l, pass, parameters, dy, dx, b);
    // An empty batch has one empty part, which sets the gradients to 0.
    for (int first = 0; first == 0 || first < b; first += part) {
        int images = min_size(part, b - first);
        const void *dy_read = rounded(pass, dy + (size_t)first * l->outputs,
                                      (size_t)images * l->outputs, dy_at(l, b));
        const void *patches = patches_of(l, pass, x, first, images, b);
        matmul_rounded(pass, 1, 0, channels, patch_size(l), images * windows, dy_read, patches,
                       first > 0, gradients, CUDA_R_32F); // dW += dy^T patches
    }
    if (settings_of(l)->convolution.has_bias)
        sum_pixels(pass, dy, gradients + (size_t)channels * patch_size(l), b, windows, channels);
}

const struct layer_kind convolution = {"convolution", convolution_initialise, convolution_forward,
                                       convolution_backward, convolution_scratch};
const struct layer_kind convolution_relu = {"convolution_relu", convolution_initialise,
                                            convolution_forward, convolution_backward,
                                            convolution_scratch};

void append_convolution(struct model *m, const struct layer_kind *kind, int outputs, int size,
                        int stride, int padding, int has_bias) {
    struct windows w = {.in = m->out,
                        .size = size,
                        .stride = stride,
                        .padding = padding,
                        .height = (m->out.height + 2 * padding - size) / stride + 1,
                        .width = (m->out.width + 2 * padding - size) / stride + 1};
    struct shape out = {w.height, w.width, outputs};
    size_t patch = (size_t)size * size * m->out.channels;
    struct layer *l = append_layer(m, kind, out, 0, outputs * (patch + has_bias));
    settings_of(l)->convolution.windows = w;
    settings_of(l)->convolution.has_bias = has_bias;
    l->flops = 2. * patch * l->outputs;
}
