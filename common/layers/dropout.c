#include "common/device.h"
#include "common/kernels.h"
#include "common/layers/layers.h"
#include "common/rng.h"

static void dropout_initialise(const struct layer *l, float *parameters, size_t first_value,
                               size_t count, uint64_t seed, cudaStream_t stream) {
    (void)l, (void)parameters, (void)first_value, (void)count, (void)seed, (void)stream;
}

// Forward and backward drop the same values, because the choice depends only on the seed and on the
// index of the value in the whole batch.
static void drop(const struct layer *l, const struct pass *pass, const float *from, float *to,
                 int b) {
    drop_values(from, to, (size_t)b * l->outputs, l->dropout.rate,
                rng_bits(pass->seed, l->dropout.number), pass->first_sample * l->outputs,
                pass->stream);
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

const struct layer_kind dropout = {"dropout", dropout_initialise, dropout_forward,
                                   dropout_backward};

void append_dropout(struct model *m, int width, float rate) {
    int number = m->count;
    struct layer *l = model_append(m, &dropout, width, width, 0, 0);
    l->dropout.rate = rate;
    l->dropout.number = number;
}
