// The outputs of the inner layers are in the workspace of the block.
#include "common/device/device.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/inner.h"

static void residual_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, int b) {
    const struct layer *shortcut = settings_of(l)->residual.shortcut;
    const float *sum = inner_forward(zoo_layer(l)->inner, shortcut, pass, parameters, x, y, b);
    const float *other =
        inner_forward(shortcut, zoo_layer(l)->inner_end, pass, parameters, x, y, b);
    add_relu(sum, other, y, (size_t)b * l->outputs, pass->stream);
}

// Computes the gradients of the layers from first to end, and dx of the first one, from dy of the
// block.
static void branch_backward(const struct layer *l, const struct layer *first,
                            const struct layer *end, const struct pass *pass,
                            const void *parameters, const float *x, float *y, float *dy, float *dx,
                            float *gradients, int b) {
    float *dy_of_last = gradient_of(layer_before(first, end), pass, dy, b);
    CUDA_CHECK(cudaMemcpyAsync(dy_of_last, dy, (size_t)b * l->outputs * sizeof *dy,
                               cudaMemcpyDeviceToDevice, pass->stream));
    inner_backward(first, end, pass, parameters, x, y, dy, dy_of_last, dx, gradients, b);
}

static int has_shortcut(const struct layer *l) {
    return settings_of(l)->residual.shortcut < zoo_layer(l)->inner_end;
}

// The gradient of the shortcut's inputs lies in scratch memory, after that of inner_scratch.
static size_t residual_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t inputs = has_shortcut(l) ? (size_t)b * l->inputs : 0;
    return inner_scratch(l, type, b) + inputs * sizeof(float);
}

// Each gradient may overwrite parameters of later layers, so the shortcut comes first.
static void residual_backward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, float *dy,
                              float *dx, float *gradients, int b) {
    const struct layer *shortcut = settings_of(l)->residual.shortcut;
    float *dx_of_shortcut = dy;
    relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (has_shortcut(l)) {
        dx_of_shortcut = scratch_after(pass, inner_scratch(l, pass->type, b));
        branch_backward(l, shortcut, zoo_layer(l)->inner_end, pass, parameters, x, y, dy,
                        dx ? dx_of_shortcut : NULL, gradients, b);
    }
    branch_backward(l, zoo_layer(l)->inner, shortcut, pass, parameters, x, y, dy, dx, gradients, b);
    if (dx)
        add_to(dx, dx_of_shortcut, (size_t)b * l->inputs, pass->stream);
}

const struct layer_kind residual = {"residual", inner_initialise, residual_forward,
                                    residual_backward, residual_scratch};

void begin_residual(struct model *m) {
    begin_inner(m, &residual);
}

void begin_shortcut(struct model *m) {
    struct zoo_model *z = zoo_model(m);
    settings_of(z->open)->residual.shortcut = z->inner + z->count;
    m->out = z->open->in;
}

void end_residual(struct model *m) {
    struct zoo_model *z = zoo_model(m);
    struct layer *l = z->open, *end = z->inner + z->count;
    if (!settings_of(l)->residual.shortcut)
        settings_of(l)->residual.shortcut = end;
    end_inner(m);
}
