// A layer normalisation begins the body, and makes values of the stream's floats. The sum, which
// also adds the body's last bias, makes floats of values.
#include "common/kernels/kernels.h"
#include "zoo/kernels/value_kernels.h"
#include "zoo/layers/inner.h"

// Only the sum needs the outputs of the body, so they lie in scratch memory, after that of
// inner_scratch. In backward, the rounded dy lies there.
static float *body_of(const struct layer *l, const struct pass *pass, int b) {
    return scratch_after(pass, inner_scratch(l, pass->type, b));
}

static size_t sublayer_scratch(const struct layer *l, cudaDataType type, int b) {
    return inner_scratch(l, type, b) + b * output_floats(last_to_write(l), type) * sizeof(float);
}

static void sublayer_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, int b) {
    const struct layer *last = last_to_write(l), *end = layer_after(last);
    float *body = body_of(l, pass, b);
    const float *x_of_last = inner_forward(zoo_layer(l)->inner, last, pass, parameters, x, y, b);
    last->kind->forward(last, pass, parameters_of_inner(last, pass, parameters), x_of_last, body,
                        b);
    add_values(x, body,
               end < zoo_layer(l)->inner_end ? parameters_of_inner(end, pass, parameters) : NULL, y,
               b * l->out.height, l->out.channels, pass->type, pass->stream);
}

// The kernel that adds up the gradient of the last bias also rounds dy for the products.
static void sublayer_backward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, float *dy,
                              float *dx, float *gradients, int b) {
    const struct layer *norm = zoo_layer(l)->inner, *end = layer_after(last_to_write(l));
    int rows = b * l->out.height, cols = l->out.channels, narrow = pass->type != CUDA_R_32F;
    float *dbody = narrow ? body_of(l, pass, b) : dy;
    if (end < zoo_layer(l)->inner_end)
        sum_columns(dy, CUDA_R_32F, narrow ? (void *)dbody : NULL,
                    gradients + (end->first - l->first), pass->scratch, rows, cols, pass->stream);
    else if (narrow)
        to_bfloat16((void *)dbody, dy, (size_t)rows * cols, pass->stream);
    float *normalised = y + b * zoo_layer(norm)->offset,
          *dnormalised = gradient_of(norm, pass, dy, b);
    inner_backward(layer_after(norm), end, pass, parameters, normalised, y, dy, dbody, dnormalised,
                   gradients, b);
    norm_backward_adding(norm, pass, parameters_of_inner(norm, pass, parameters), x, normalised,
                         dnormalised, dy, dx, gradients, b);
}

const struct layer_kind sublayer = {"sublayer", inner_initialise, sublayer_forward,
                                    sublayer_backward, sublayer_scratch};

void begin_sublayer(struct model *m) {
    begin_inner(m, &sublayer);
    append_layer_norm(m);
}
