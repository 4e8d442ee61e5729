// A layer normalisation begins the body, and makes values of the stream's floats. The sum, which
// also adds the body's last bias, makes floats of values.
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/kernels/value_kernels.h"
#include "zoo/layers/inner.h"
#include "zoo/layers/kinds.h"

// Returns the bias that ends the body, or NULL if another layer does, such as dropout.
static const struct layer *last_bias(const struct layer *l) {
    const struct layer *last = layer_before(l->inner, l->inner_end);
    return last->kind == &bias ? last : NULL;
}

static void sublayer_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, int b) {
    const struct layer *last = last_bias(l), *end = last ? last : l->inner_end;
    const float *body = inner_forward(l->inner, end, pass, parameters, x, y, b);
    add_values(x, body, last ? parameters_of_inner(last, pass, parameters) : NULL, y,
               b * l->out.height, l->out.channels, pass->type, pass->stream);
}

// The kernel that adds up the gradient of the last bias also rounds dy for the products.
static void sublayer_backward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, float *dy,
                              float *dx, float *gradients, int b) {
    const struct layer *norm = l->inner, *last = last_bias(l), *end = last ? last : l->inner_end;
    int rows = b * l->out.height, cols = l->out.channels, narrow = pass->type != CUDA_R_32F;
    float *dbody = narrow ? dy + b * layer_before(norm, end)->place : dy;
    if (last)
        sum_columns(dy, CUDA_R_32F, narrow ? (void *)dbody : NULL,
                    gradients + (last->first - l->first), pass->scratch, rows, cols, pass->stream);
    else if (narrow)
        to_bfloat16((void *)dbody, dy, (size_t)rows * cols, pass->stream);
    float *normalised = y + b * norm->place, *dnormalised = dy + b * norm->place;
    inner_backward(layer_behind(norm), end, pass, parameters, normalised, y, dy, dbody, dnormalised,
                   gradients, b);
    norm_backward_adding(norm, pass, parameters_of_inner(norm, pass, parameters), x, normalised,
                         dnormalised, dy, dx, gradients, b);
}

const struct layer_kind sublayer = {"sublayer", inner_initialise, sublayer_forward,
                                    sublayer_backward, inner_scratch};

void begin_sublayer(struct model *m) {
    begin_inner(m, &sublayer);
    append_layer_norm(m);
}

void end_sublayer(struct model *m) {
    end_inner(m);
}
