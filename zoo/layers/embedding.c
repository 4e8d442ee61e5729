#include "common/kernels/kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/kinds.h"

static void embedding_initialise(const struct layer *l, float *parameters, size_t first_value,
                                 size_t count, uint64_t seed, cudaStream_t stream) {
    fill_normal(parameters, count, 0.02f, seed, l->first + first_value, stream);
}

static void embedding_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    int context = l->inputs, width = l->out.channels;
    const float *tokens = as_floats(pass, parameters, 0, l->parameters);
    look_up(x, tokens, y, b * context, width, settings_of(l)->tokens, pass->stream);
    add_bias(y, tokens + (size_t)settings_of(l)->tokens * width, b, context * width, 0,
             pass->stream);
}

static void embedding_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    int context = l->inputs, width = l->out.channels;
    (void)parameters, (void)y, (void)dx;
    look_up_backward(x, dy, gradients, b * context, width, settings_of(l)->tokens, pass->stream);
    sum_rows(dy, gradients + (size_t)settings_of(l)->tokens * width, b, context * width,
             pass->stream);
}

static size_t embedding_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)b;
    return type == CUDA_R_32F ? 0 : l->parameters * sizeof(float);
}

const struct layer_kind embedding = {"embedding", embedding_initialise, embedding_forward,
                                     embedding_backward, embedding_scratch};

void append_embedding(struct model *m, int tokens, int width) {
    int context = m->out.height;
    struct layer *l = append_layer(m, &embedding, (struct shape){context, 1, width}, 0,
                                   ((size_t)tokens + context) * width);
    settings_of(l)->tokens = tokens;
    layer_appended(m, l);
}
