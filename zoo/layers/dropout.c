#include "common/base/rng.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/kinds.h"

// Forward and backward drop the same values, because the choice depends only on the seed and on the
// index of the value in the whole batch, and in the whole model.
void drop(const struct dropping *d, const struct pass *pass, const float *from, float *to,
          size_t per_sample, size_t first, size_t count) {
    struct numbers numbers = {.first = pass->first_sample * per_sample + first};
    if (d->shares > 1) {
        size_t all = per_sample * d->shares, before = per_sample * d->share;
        numbers = (struct numbers){pass->first_sample * all + before, first, per_sample, all};
    }
    drop_values(from, to, count, d->rate, rng_bits(pass->seed, d->number), numbers, pass->stream);
}

static void drop_all(const struct layer *l, const struct pass *pass, const float *from, float *to,
                     int b) {
    drop(&settings_of(l)->dropout, pass, from, to, l->outputs, 0, (size_t)b * l->outputs);
}

static void dropout_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, int b) {
    (void)parameters;
    if (pass->training)
        drop_all(l, pass, x, y, b);
    else
        CUDA_CHECK(cudaMemcpyAsync(y, x, (size_t)b * l->outputs * sizeof *y,
                                   cudaMemcpyDeviceToDevice, pass->stream));
}

static void dropout_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, float *dy, float *dx, float *gradients,
                             int b) {
    (void)parameters, (void)x, (void)y, (void)gradients;
    if (dx)
        drop_all(l, pass, dy, dx, b);
}

const struct layer_kind dropout = {"dropout", initialise_nothing, dropout_forward,
                                   dropout_backward};

void append_dropout(struct model *m, float rate) {
    int number = m->count + m->inner_count;
    struct layer *l = model_append(m, &dropout, m->out, 0, 0);
    settings_of(l)->dropout = (struct dropping){.rate = rate, .number = number};
    layer_appended(m, l);
}
