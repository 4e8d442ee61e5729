#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"
#include <math.h>

static void dense_initialise(const struct layer *l, float *parameters, size_t first_value,
                             size_t count, uint64_t seed, cudaStream_t stream) {
    fill_uniform(parameters, count, 1.f / sqrtf((float)l->inputs), seed, l->first + first_value,
                 stream);
}

// Return x, dy and the bias as the calls below read them: the arrays themselves or, if the pass
// computes in bfloat16, copies in scratch of the other type.
static const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b);
static const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b);
static const float *read_bias(const struct layer *l, const struct pass *pass,
                              const void *parameters);

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    const void *x_read = read_x(l, pass, x, b);
    matmul(pass, 0, 1, b, l->outputs, l->inputs, x_read, parameters, 0, y); // y = x W^T
    add_bias(y, read_bias(l, pass, parameters), b, l->outputs, l->kind == &dense_relu,
             pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    float *dbias = gradients + (size_t)l->outputs * l->inputs;
    if (l->kind == &dense_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    const void *dy_read = read_dy(l, pass, dy, b);
    if (dx && !l->dx_unused)
        matmul(pass, 0, 0, b, l->inputs, l->outputs, dy_read, parameters, 0, dx); // dx = dy W
    const void *x_read = read_x(l, pass, x, b);
    matmul(pass, 1, 0, l->outputs, l->inputs, b, dy_read, x_read, 0, gradients); // dW = dy^T x
    sum_rows(dy, dbias, b, l->outputs, pass->stream);
}

static const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b) {
    return rounded(pass, x, (size_t)b * l->inputs, 0);
}

static const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b) {
    size_t behind_x = (size_t)b * l->inputs * type_size(pass->type);
    return rounded(pass, dy, (size_t)b * l->outputs, behind_x);
}

// The product has read its inputs, so scratch is free again.
static const float *read_bias(const struct layer *l, const struct pass *pass,
                              const void *parameters) {
    size_t weights = (size_t)l->outputs * l->inputs;
    return as_floats(pass, parameter_at(pass, parameters, weights), l->outputs, 0);
}

// For x and dy in bfloat16, and for a bias in float.
static size_t dense_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t x_and_dy = ((size_t)l->inputs + l->outputs) * b * type_size(type);
    return type == CUDA_R_32F ? 0 : max_size(l->outputs * sizeof(float), x_and_dy);
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward,
                                 dense_scratch};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward, dense_backward,
                                      dense_scratch};

void append_dense(struct model *m, const struct layer_kind *kind, int outputs) {
    size_t inputs = shape_size(m->out);
    struct layer *l =
        model_append(m, kind, (struct shape){1, 1, outputs}, 0, (inputs + 1) * outputs);
    l->flops = 2. * inputs * outputs;
}
