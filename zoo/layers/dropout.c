#include "common/base/rng.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/inner.h"

void initialise_nothing(const struct layer *l, float *parameters, size_t first_value, size_t count,
                        uint64_t seed, cudaStream_t stream) {
    (void)l, (void)parameters, (void)first_value, (void)count, (void)seed, (void)stream;
}

// Forward and backward drop the same values, because the choice depends only on the seed and on the
// index of the value in the whole batch, and in the whole model.
struct numbers dropped_numbers(const struct dropping *d, const struct pass *pass,
                               size_t per_sample) {
    size_t all = per_sample * d->shares;
    if (d->shares > 1)
        return (struct numbers){pass->first_sample * all + per_sample * d->share, 0, per_sample,
                                all};
    return (struct numbers){.first = pass->first_sample * per_sample};
}

static void drop_all(const struct layer *l, const struct pass *pass, const float *from, float *to,
                     int b) {
    const struct dropping *d = &settings_of(l)->dropout;
    drop_values(from, to, value_type(l, pass->type), (size_t)b * l->outputs, d->rate,
                rng_bits(pass->seed, d->number), dropped_numbers(d, pass, l->outputs),
                pass->stream);
}

static void dropout_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, int b) {
    (void)parameters;
    if (pass->training)
        drop_all(l, pass, x, y, b);
    else
        CUDA_CHECK(cudaMemcpyAsync(y, x,
                                   (size_t)b * l->outputs * type_size(value_type(l, pass->type)),
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
    if (rate == 0)
        return;
    struct layer *l = append_layer(m, &dropout, m->out, 0, 0);
    settings_of(l)->dropout = (struct dropping){.rate = rate, .number = layer_number(m)};
    zoo_layer(l)->elementwise = 1;
    layer_appended(m, l);
}
