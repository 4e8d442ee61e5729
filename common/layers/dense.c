#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/training/catalogue.h"
#include <math.h>

static void dense_initialise(const struct layer *l, float *parameters, size_t first_value,
                             size_t count, uint64_t seed, cudaStream_t stream) {
    fill_uniform(parameters, count, 1.f / sqrtf((float)l->inputs), seed, l->first + first_value,
                 stream);
}

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    int inputs = l->inputs, outputs = l->outputs;
    matmul(pass, 0, 1, b, outputs, inputs, x, parameters, y); // y = x W^T
    const float *bias = as_floats(pass, parameters, (size_t)outputs * inputs, outputs);
    add_bias(y, bias, b, outputs, l->kind == &dense_relu, pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    int inputs = l->inputs, outputs = l->outputs;
    float *dbias = gradients + (size_t)outputs * inputs;
    if (l->kind == &dense_relu)
        relu_backward(dy, y, (size_t)b * outputs, pass->stream);
    if (dx && !l->dx_unused)
        matmul(pass, 0, 0, b, inputs, outputs, dy, parameters, dx); // dx = dy W
    matmul(pass, 1, 0, outputs, inputs, b, dy, x, gradients);       // dW = dy^T x
    sum_rows(dy, dbias, b, outputs, pass->stream);
}

// For what a product rounds, and a bias in float.
static size_t dense_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t bias = type == CUDA_R_32F ? 0 : l->outputs * sizeof(float);
    return max_size(matmul_scratch(type, (size_t)b * (l->inputs + l->outputs)), bias);
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward,
                                 dense_scratch};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward, dense_backward,
                                      dense_scratch};

void append_dense(struct model *m, const struct layer_kind *kind, int outputs) {
    int inputs = shape_size(m->out);
    struct layer *l =
        model_append(m, kind, (struct shape){1, 1, outputs}, 0, ((size_t)inputs + 1) * outputs);
    l->flops = 2. * inputs * outputs;
    if (catalogue->dense_appended)
        catalogue->dense_appended(m, l);
}
