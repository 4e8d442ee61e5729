#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"
#include <math.h>

// Rows of the product: the samples of the batch, or all their tokens.
static int rows_of(const struct layer *l, int b) {
    return b * l->dense.rows;
}

static void dense_initialise(const struct layer *l, float *parameters, size_t first_value,
                             size_t count, uint64_t seed, cudaStream_t stream) {
    size_t weights = (size_t)l->dense.outputs * l->dense.inputs, end = first_value + count;
    size_t normal = min_size(max_size(weights, first_value), end) - first_value;
    if (l->dense.deviation == 0) {
        fill_uniform(parameters, count, 1.f / sqrtf((float)l->dense.inputs), seed,
                     l->first + first_value, stream);
        return;
    }
    fill_normal(parameters, normal, l->dense.deviation, seed, l->first + first_value, stream);
    fill(parameters + normal, count - normal, 0, stream);
}

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    int rows = rows_of(l, b), inputs = l->dense.inputs, outputs = l->dense.outputs;
    matmul(pass, 0, 1, rows, outputs, inputs, x, parameters, y); // y = x W^T
    const float *bias = as_floats(pass, parameters, (size_t)outputs * inputs, outputs);
    add_bias(y, bias, rows, outputs, l->dense.relu, pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    int rows = rows_of(l, b), inputs = l->dense.inputs, outputs = l->dense.outputs;
    float *dbias = gradients + (size_t)outputs * inputs;
    if (l->dense.relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (dx && !l->dx_unused)
        matmul(pass, 0, 0, rows, inputs, outputs, dy, parameters, dx); // dx = dy W
    matmul(pass, 1, 0, outputs, inputs, rows, dy, x, gradients);       // dW = dy^T x
    if (l->dense.rows == 1)
        sum_rows(dy, dbias, b, outputs, pass->stream);
    else
        sum_pixels(pass, dy, dbias, b, l->dense.rows, outputs);
}

// For what a product rounds, and a bias in float; then for the sums over the tokens of a sample.
static size_t dense_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t values = (size_t)rows_of(l, b) * (l->dense.inputs + l->dense.outputs);
    size_t floats = type == CUDA_R_32F && l->dense.rows == 1 ? 0 : l->outputs;
    return max_size(matmul_scratch(type, values), floats * sizeof(float));
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward,
                                 dense_scratch};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward, dense_backward,
                                      dense_scratch};

static struct layer *append(struct model *m, const struct layer_kind *kind, int rows, int inputs,
                            int outputs) {
    struct layer *l =
        model_append(m, kind, (struct shape){rows, 1, outputs}, 0, ((size_t)inputs + 1) * outputs);
    l->dense.rows = rows;
    l->dense.inputs = inputs;
    l->dense.outputs = outputs;
    l->dense.relu = kind == &dense_relu;
    l->flops = 2. * rows * inputs * outputs;
    layer_appended(m, l);
    return l;
}

void append_dense(struct model *m, const struct layer_kind *kind, int outputs) {
    append(m, kind, 1, shape_size(m->out), outputs);
}

void append_linear(struct model *m, int outputs, float deviation) {
    struct layer *l = append(m, &dense, m->out.height, m->out.channels, outputs);
    exempt_from_decay(m, l, l->dense.outputs);
    l->dense.deviation = deviation;
}
