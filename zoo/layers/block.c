// The outputs of the last inner layer are those of the block.
#include "zoo/layers/inner.h"

static void block_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    const struct zoo_layer *z = zoo_layer(l);
    inner_forward(z->inner, z->inner_end, pass, parameters, x, y, b);
}

static void block_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    const struct zoo_layer *z = zoo_layer(l);
    inner_backward(z->inner, z->inner_end, pass, parameters, x, y, dy, dy, dx, gradients, b);
}

const struct layer_kind block = {"block", inner_initialise, block_forward, block_backward,
                                 inner_scratch};

void begin_block(struct model *m) {
    begin_inner(m, &block);
}
