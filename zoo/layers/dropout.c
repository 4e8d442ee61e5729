#include "common/base/rng.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/kinds.h"

// Forward and backward drop the same values, because the choice depends only on the seed and on the
// index of the value in the whole batch, and in the whole model.
static void drop(const struct layer *l, const struct pass *pass, const float *from, float *to,
                 int b) {
    const struct parts *parts = &l->parts;
    size_t own = l->outputs, all = l->held == HOLDS_ALL ? own : own * parts->count;
    struct numbers numbers = {.first = pass->first_sample * all};
    if (l->held == HOLDS_COLUMNS)
        numbers = (struct numbers){numbers.first + parts->number * own, 0, own, all};
    else if (l->held == HOLDS_TOKENS)
        numbers.first += parts->number * b * own;
    drop_values(from, to, (size_t)b * l->outputs, settings_of(l)->dropout.rate,
                rng_bits(pass->seed, settings_of(l)->dropout.number), numbers, pass->stream);
}

static void dropout_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, int b) {
    (void)parameters;
    if (pass->training)
        drop(l, pass, x, y, b);
    else
        CUDA_CHECK(cudaMemcpyAsync(y, x, (size_t)b * l->outputs * sizeof *y,
                                   cudaMemcpyDeviceToDevice, pass->stream));
}

static void dropout_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, float *dy, float *dx, float *gradients,
                             int b) {
    (void)parameters, (void)x, (void)y, (void)gradients;
    if (dx)
        drop(l, pass, dy, dx, b);
}

const struct layer_kind dropout = {"dropout", initialise_nothing, dropout_forward,
                                   dropout_backward};

void append_dropout(struct model *m, float rate) {
    int number = m->count + m->inner_count;
    struct layer *l = model_append(m, &dropout, m->out, 0, 0);
    settings_of(l)->dropout.rate = rate;
    settings_of(l)->dropout.number = number;
}
