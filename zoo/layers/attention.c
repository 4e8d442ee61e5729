#include "common/base/rng.h"
#include "common/device/device.h"
#include "common/layers/products.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/layers/kinds.h"

// x: the queries, keys and values of b samples, or their gradients, in the type of the pass.
static struct attention_inputs inputs_of(const struct layer *l, const struct pass *pass,
                                         const void *x, int b) {
    const struct heads h = settings_of(l)->attention.heads;
    const struct dropping *d = &settings_of(l)->attention.dropout;
    size_t width = (size_t)h.heads * h.width;
    cublasMath_t math;
    CUBLAS_CHECK(cublasGetMathMode(pass->blas, &math));
    return (struct attention_inputs){
        .type = pass->type,
        .tf32 = math == CUBLAS_TF32_TENSOR_OP_MATH,
        .samples = b,
        .heads = h.heads,
        .width = h.width,
        .queries = h.tokens,
        .keys = h.tokens,
        .q = x,
        .k = parameter_at(pass, x, width),
        .v = parameter_at(pass, x, 2 * width),
        .q_pitch = 3 * width,
        .key_pitch = 3 * width,
        .rate = pass->training ? d->rate : 0,
        .seed = rng_bits(pass->seed, d->number),
        .numbers = dropped_numbers(d, pass, (size_t)h.heads * h.tokens * h.tokens),
    };
}

// The float behind each query's outputs: the logarithm of its sum.
static float *logs_of(const struct layer *l, float *y, int b) {
    return y + (size_t)b * l->outputs;
}

static size_t logs_size(const struct layer *l, int b) {
    return (size_t)b * l->workspace;
}

// Until the layers' values have the type of the pass: a copy in bfloat16, in scratch behind deltas.
static void *copy_of(const struct layer *l, const struct pass *pass, const float *x, size_t at,
                     int b) {
    uint16_t *copies = (void *)((float *)pass->scratch + logs_size(l, b));
    return pass->type == CUDA_R_32F ? (void *)x : copies + at * b;
}

static void attention_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    void *x_copy = copy_of(l, pass, x, 0, b), *y_copy = copy_of(l, pass, y, l->inputs, b);
    (void)parameters;
    if (pass->type != CUDA_R_32F)
        to_bfloat16(x_copy, x, (size_t)b * l->inputs, pass->stream);
    struct attention_inputs a = inputs_of(l, pass, x_copy, b);
    attend(&a, y_copy, logs_of(l, y, b), pass->stream);
    if (pass->type != CUDA_R_32F)
        from_bfloat16(y, y_copy, (size_t)b * l->outputs, pass->stream);
}

static void attention_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    (void)parameters, (void)gradients;
    if (!dx)
        return;
    void *x_copy = copy_of(l, pass, x, 0, b), *y_copy = copy_of(l, pass, y, l->inputs, b);
    void *dy_copy = copy_of(l, pass, dy, (size_t)l->inputs + l->outputs, b);
    void *dx_copy = copy_of(l, pass, dx, (size_t)l->inputs + 2 * l->outputs, b);
    if (pass->type != CUDA_R_32F) {
        to_bfloat16(x_copy, x, (size_t)b * l->inputs, pass->stream);
        to_bfloat16(y_copy, y, (size_t)b * l->outputs, pass->stream);
        to_bfloat16(dy_copy, dy, (size_t)b * l->outputs, pass->stream);
    }
    struct attention_inputs a = inputs_of(l, pass, x_copy, b);
    struct attention_inputs d = inputs_of(l, pass, dx_copy, b);
    attend_backward(&a, y_copy, dy_copy, logs_of(l, y, b), pass->scratch, (void *)d.q, (void *)d.k,
                    (void *)d.v, pass->stream);
    if (pass->type != CUDA_R_32F)
        from_bfloat16(dx, dx_copy, (size_t)b * l->inputs, pass->stream);
}

static size_t attention_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t copies = type == CUDA_R_32F ? 0 : 2 * ((size_t)l->inputs + l->outputs) * type_size(type);
    return logs_size(l, b) * sizeof(float) + b * copies;
}

const struct layer_kind attention = {"attention", initialise_nothing, attention_forward,
                                     attention_backward, attention_scratch};

void append_attention(struct model *m, int heads, float dropout) {
    int tokens = m->out.height, width = m->out.channels / 3, number = m->count + m->inner_count;
    struct layer *l =
        model_append(m, &attention, (struct shape){tokens, 1, width}, heads * tokens, 0);
    settings_of(l)->attention.heads = (struct heads){tokens, heads, width / heads};
    settings_of(l)->attention.dropout = (struct dropping){.rate = dropout, .number = number};
    l->flops = 4. * tokens * tokens * width;
    layer_appended(m, l);
}
