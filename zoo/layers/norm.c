#include "common/base/minmax.h"
#include "zoo/layers/inner.h"

// A process may store only a part of the layer, such as the last scales and the first shifts.
static void norm_initialise(const struct layer *l, float *parameters, size_t first_value,
                            size_t count, uint64_t seed, cudaStream_t stream) {
    size_t channels = l->in.channels, end = first_value + count;
    size_t scales = min_size(max_size(channels, first_value), end) - first_value;
    (void)seed;
    fill(parameters, scales, 1, stream);
    fill(parameters + scales, count - scales, 0, stream);
}

// The statistics lie after the outputs y.
static struct norm norm_of(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, int b) {
    size_t pixels = settings_of(l)->norm.pixels, channels = l->in.channels;
    return (struct norm){.samples = (size_t)b * l->inputs / (pixels * channels),
                         .pixels = pixels,
                         .channels = channels,
                         .groups = settings_of(l)->norm.groups,
                         .relu = l->kind == &group_normalisation_relu,
                         .type = value_type(l, pass->type),
                         .x = x,
                         .parameters = parameters,
                         .parameters_type = pass->type,
                         .statistics = workspace_of(l, pass->type, y, b)};
}

static void norm_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    struct norm n = norm_of(l, pass, parameters, x, y, b);
    normalise(&n, y, pass->stream);
}

void norm_backward_adding(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, const float *dy, const float *other, float *dx,
                          float *gradients, int b) {
    struct norm n = norm_of(l, pass, parameters, x, y, b);
    normalise_backward(&n, dy, other, dx, gradients, pass->scratch, pass->stream);
}

static void norm_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    if (l->kind == &group_normalisation_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    norm_backward_adding(l, pass, parameters, x, y, dy, NULL, dx, gradients, b);
}

static size_t norm_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type;
    size_t samples = (size_t)b * l->inputs / (settings_of(l)->norm.pixels * l->in.channels);
    return norm_slices(samples) * 2 * l->in.channels * sizeof(float);
}

const struct layer_kind group_normalisation = {"group_norm", norm_initialise, norm_forward,
                                               norm_backward, norm_scratch};
const struct layer_kind group_normalisation_relu = {"group_norm_relu", norm_initialise,
                                                    norm_forward, norm_backward, norm_scratch};
const struct layer_kind layer_normalisation = {"layer_norm", norm_initialise, norm_forward,
                                               norm_backward, norm_scratch};

static void append_norm(struct model *m, const struct layer_kind *kind, int pixels, int groups) {
    int samples = m->out.height * m->out.width / pixels;
    struct layer *l =
        append_layer(m, kind, m->out, 2 * samples * groups, 2 * (size_t)m->out.channels);
    settings_of(l)->norm.pixels = pixels;
    settings_of(l)->norm.groups = groups;
}

void append_group_norm(struct model *m, const struct layer_kind *kind, int groups) {
    append_norm(m, kind, m->out.height * m->out.width, groups);
}

void append_layer_norm(struct model *m) {
    append_norm(m, &layer_normalisation, 1, 1);
}
