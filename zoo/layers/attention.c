#include "common/base/rng.h"
#include "common/device/device.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/layers/inner.h"

// x: the queries, keys and values of b samples, or their gradients.
static struct attention_inputs inputs_of(const struct layer *l, const struct pass *pass,
                                         const void *x, int b) {
    int tokens = l->in.height, heads = settings_of(l)->attention.heads;
    const struct dropping *d = &settings_of(l)->attention.dropout;
    cudaDataType type = value_type(l, pass->type);
    size_t width = l->out.channels, bytes = width * type_size(type);
    cublasMath_t math;
    CUBLAS_CHECK(cublasGetMathMode(pass->blas, &math));
    return (struct attention_inputs){
        .type = type,
        .tf32 = math == CUBLAS_TF32_TENSOR_OP_MATH,
        .samples = b,
        .heads = heads,
        .width = width / heads,
        .queries = tokens,
        .keys = tokens,
        .q = x,
        .k = (const char *)x + bytes,
        .v = (const char *)x + 2 * bytes,
        .q_pitch = 3 * width,
        .key_pitch = 3 * width,
        .rate = pass->training ? d->rate : 0,
        .seed = rng_bits(pass->seed, d->number),
        .numbers = dropped_numbers(d, pass, (size_t)heads * tokens * tokens),
    };
}

static void attention_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    struct attention_inputs a = inputs_of(l, pass, x, b);
    (void)parameters;
    attend(&a, y, workspace_of(l, pass->type, y, b), pass->stream);
}

static void attention_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    (void)parameters, (void)gradients;
    if (!dx)
        return;
    struct attention_inputs a = inputs_of(l, pass, x, b), d = inputs_of(l, pass, dx, b);
    attend_backward(&a, y, dy, workspace_of(l, pass->type, y, b), pass->scratch, (void *)d.q,
                    (void *)d.k, (void *)d.v, pass->stream);
}

// For two sums of each query.
static size_t attention_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type;
    return (size_t)b * l->workspace * 2 * sizeof(float);
}

const struct layer_kind attention = {"attention", initialise_nothing, attention_forward,
                                     attention_backward, attention_scratch};

void append_attention(struct model *m, int heads, float dropout) {
    int tokens = m->out.height, width = m->out.channels / 3;
    struct layer *l = // with the logarithm of each query's sum in the workspace
        append_layer(m, &attention, (struct shape){tokens, 1, width}, heads * tokens, 0);
    settings_of(l)->attention.heads = heads;
    settings_of(l)->attention.dropout =
        (struct dropping){.rate = dropout, .number = layer_number(m)};
    l->flops = 4. * tokens * tokens * width;
    layer_appended(m, l);
}
