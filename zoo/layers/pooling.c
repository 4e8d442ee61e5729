#include "zoo/layers/kinds.h"

static void max_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                        const float *x, float *y, int b) {
    (void)parameters;
    max_pool(x, y, b, &settings_of(l)->pool, pass->stream);
}

static void max_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    (void)parameters, (void)y, (void)gradients;
    if (dx)
        max_pool_backward(x, dy, dx, b, &settings_of(l)->pool, pass->stream);
}

const struct layer_kind max_pooling = {"max_pooling", initialise_nothing, max_forward,
                                       max_backward};

void append_max_pooling(struct model *m, int size) {
    struct windows w = {.in = m->out,
                        .size = size,
                        .stride = size,
                        .height = m->out.height / size,
                        .width = m->out.width / size};
    struct layer *l =
        append_layer(m, &max_pooling, (struct shape){w.height, w.width, m->out.channels}, 0, 0);
    settings_of(l)->pool = w;
}

static void mean_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    (void)parameters;
    mean_pool(x, y, b, l->in, pass->stream);
}

static void mean_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    (void)parameters, (void)x, (void)y, (void)gradients;
    if (dx)
        mean_pool_backward(dy, dx, b, l->in, pass->stream);
}

const struct layer_kind mean_pooling = {"mean_pooling", initialise_nothing, mean_forward,
                                        mean_backward};

void append_mean_pooling(struct model *m) {
    append_layer(m, &mean_pooling, (struct shape){1, 1, m->out.channels}, 0, 0);
}
