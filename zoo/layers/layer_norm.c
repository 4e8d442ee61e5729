#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/kernels/value_kernels.h"
#include "zoo/layers/inner.h"
#include "zoo/layers/kinds.h"

static void norm_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    layer_norm(x, y, value_type(l, pass->type), parameters, pass->type,
               workspace_of(l, pass->type, y, b), b * l->in.height, l->in.channels, pass->stream);
}

void norm_backward_adding(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, const float *dy, const float *other, float *dx,
                          float *gradients, int b) {
    layer_norm_backward(x, dy, value_type(l, pass->type), other, dx, parameters, pass->type,
                        workspace_of(l, pass->type, y, b), gradients, pass->scratch,
                        b * l->in.height, l->in.channels, pass->stream);
}

static void norm_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    norm_backward_adding(l, pass, parameters, x, y, dy, NULL, dx, gradients, b);
}

static size_t norm_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type;
    return (size_t)column_slices(b * l->in.height) * 2 * l->in.channels * sizeof(float);
}

const struct layer_kind layer_normalisation = {"layer_norm", norm_initialise, norm_forward,
                                               norm_backward, norm_scratch};

void append_layer_norm(struct model *m) {
    struct layer *l = model_append(m, &layer_normalisation, m->out, 2 * m->out.height,
                                   2 * (size_t)m->out.channels);
    exempt_from_decay(m, l, l->parameters);
}
