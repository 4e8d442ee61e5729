// The outputs of the last inner layer are those of the block.
#include "zoo/layers/inner.h"
#include "zoo/layers/kinds.h"

static void block_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    inner_forward(l->inner, l->inner_end, pass, parameters, x, y, b);
}

static void block_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    inner_backward(l->inner, l->inner_end, pass, parameters, x, y, dy, dy, dx, gradients, b);
}

const struct layer_kind block = {"block", inner_initialise, block_forward, block_backward,
                                 inner_scratch};

void begin_block(struct model *m) {
    begin_inner(m, &block);
}
