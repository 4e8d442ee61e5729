#include "common/base/minmax.h"
#include "common/layers/products.h"
#include "zoo/layers/kinds.h"

// A process may store only a part of the layer, such as the last scales and the first shifts.
void norm_initialise(const struct layer *l, float *parameters, size_t first_value, size_t count,
                     uint64_t seed, cudaStream_t stream) {
    size_t channels = l->in.channels, end = first_value + count;
    size_t scales = min_size(max_size(channels, first_value), end) - first_value;
    (void)seed;
    fill(parameters, scales, 1, stream);
    fill(parameters + scales, count - scales, 0, stream);
}

static void norm_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    int channels = l->in.channels;
    const float *scale = as_floats(pass, parameters, 0, 2 * channels), *shift = scale + channels;
    float *statistics = y + (size_t)b * l->outputs;
    group_norm(x, y, scale, shift, statistics, b, settings_of(l)->norm,
               l->kind == &group_normalisation_relu, pass->stream);
}

static void norm_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    int channels = l->in.channels, pixels = l->in.height * l->in.width;
    const float *scale = as_floats(pass, parameters, 0, channels);
    const float *statistics = y + (size_t)b * l->outputs;
    if (l->kind == &group_normalisation_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (dx)
        group_norm_backward(x, dy, dx, scale, statistics, b, settings_of(l)->norm, pass->stream);
    sum_pixels(pass, dy, gradients + channels, b, pixels, channels);
    multiply_by_normalised(x, dy, statistics, b, settings_of(l)->norm, pass->stream);
    sum_pixels(pass, dy, gradients, b, pixels, channels);
}

// For the parameters as floats, and for sum_pixels.
static size_t norm_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type, (void)b;
    return max_size(2 * l->in.channels, l->outputs) * sizeof(float);
}

const struct layer_kind group_normalisation = {"group_norm", norm_initialise, norm_forward,
                                               norm_backward, norm_scratch};
const struct layer_kind group_normalisation_relu = {"group_norm_relu", norm_initialise,
                                                    norm_forward, norm_backward, norm_scratch};
void append_group_norm(struct model *m, const struct layer_kind *kind, int groups) {
    struct layer *l = model_append(m, kind, m->out, 2 * groups, 2 * (size_t)m->out.channels);
    settings_of(l)->norm = (struct groups){m->out, groups};
}
