#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/layers/kinds.h"

static void embedding_initialise(const struct layer *l, float *parameters, size_t first_value,
                                 size_t count, uint64_t seed, cudaStream_t stream) {
    fill_normal(parameters, count, 0.02f, seed, l->first + first_value, stream);
}

// The floats of all tokens of the batch. With own_tokens, each part computes them all in scratch,
// because looking up costs little, and keeps its own.
static size_t floats_of_all(const struct layer *l, int b) {
    return (size_t)b * l->inputs * l->out.channels;
}

static float *all_tokens(const struct layer *l, const struct pass *pass) {
    size_t copies = pass->type == CUDA_R_32F ? 0 : l->parameters; // those of as_floats
    return (float *)pass->scratch + copies;
}

static void embedding_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    int context = l->inputs, width = l->out.channels;
    const float *tokens = as_floats(pass, parameters, 0, l->parameters);
    float *all = l->held == HOLDS_TOKENS ? all_tokens(l, pass) : y;
    size_t own = (size_t)b * l->outputs;
    look_up(x, tokens, all, b * context, width, settings_of(l)->tokens, pass->stream);
    add_bias(all, tokens + (size_t)settings_of(l)->tokens * width, b, context * width, 0,
             pass->stream);
    if (all != y)
        CUDA_CHECK(cudaMemcpyAsync(y, all + l->parts.number * own, own * sizeof *y,
                                   cudaMemcpyDeviceToDevice, pass->stream));
}

static void embedding_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    int context = l->inputs, width = l->out.channels;
    float *all = l->held == HOLDS_TOKENS ? all_tokens(l, pass) : dy;
    size_t own = (size_t)b * l->outputs;
    (void)parameters, (void)y, (void)dx;
    if (all != dy) { // the tokens of other parts add nothing
        CUDA_CHECK(cudaMemsetAsync(all, 0, floats_of_all(l, b) * sizeof *all, pass->stream));
        CUDA_CHECK(cudaMemcpyAsync(all + l->parts.number * own, dy, own * sizeof *all,
                                   cudaMemcpyDeviceToDevice, pass->stream));
    }
    look_up_backward(x, all, gradients, b * context, width, settings_of(l)->tokens, pass->stream);
    sum_rows(all, gradients + (size_t)settings_of(l)->tokens * width, b, context * width,
             pass->stream);
}

static size_t embedding_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t copies = type == CUDA_R_32F ? 0 : l->parameters;
    return (copies + (l->held == HOLDS_TOKENS ? floats_of_all(l, b) : 0)) * sizeof(float);
}

const struct layer_kind embedding = {"embedding", embedding_initialise, embedding_forward,
                                     embedding_backward, embedding_scratch};

void append_embedding(struct model *m, int tokens, int width) {
    int context = m->out.height, own = context;
    if (m->parts.own_tokens) {
        m->held = HOLDS_TOKENS;
        own /= m->parts.count;
    }
    struct layer *l = model_append(m, &embedding, (struct shape){own, 1, width}, 0,
                                   ((size_t)tokens + context) * width);
    settings_of(l)->tokens = tokens;
}
