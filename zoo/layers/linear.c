// The products of a transformer, and the layers that add a bias. A row of a product is a token.
#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/kernels/value_kernels.h"
#include "zoo/layers/inner.h"

static void linear_initialise(const struct layer *l, float *parameters, size_t first_value,
                              size_t count, uint64_t seed, cudaStream_t stream) {
    fill_normal(parameters, count, settings_of(l)->deviation, seed, l->first + first_value, stream);
}

// Returns values as inputs of a product. Outside of a sublayer, they are floats, and may have to be
// rounded into scratch, from byte at on.
static const void *read_values(const struct layer *l, const struct pass *pass, const float *values,
                               size_t count, size_t at) {
    return value_type(l, pass->type) == pass->type ? values : rounded(pass, values, count, at);
}

static void linear_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, int b) {
    int rows = b * l->out.height, inputs = l->in.channels, outputs = l->out.channels;
    const void *x_read = read_values(l, pass, x, (size_t)rows * inputs, 0);
    matmul_rounded(pass, 0, 1, rows, outputs, inputs, x_read, parameters, 0, y,
                   value_type(l, pass->type)); // y = x W^T
}

static void linear_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, float *dy, float *dx, float *gradients,
                            int b) {
    int rows = b * l->out.height, inputs = l->in.channels, outputs = l->out.channels;
    size_t dy_size = (size_t)rows * outputs;
    const void *dy_read = read_values(l, pass, dy, dy_size, 0);
    (void)y;
    if (dx)
        matmul_rounded(pass, 0, 0, rows, inputs, outputs, dy_read, parameters, 0, dx,
                       value_type(l, pass->type)); // dx = dy W
    const void *x_read = read_values(l, pass, x, (size_t)rows * inputs, dy_size * sizeof(uint16_t));
    matmul_rounded(pass, 1, 0, outputs, inputs, rows, dy_read, x_read, 0, gradients,
                   CUDA_R_32F); // dW = dy^T x
}

static size_t linear_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t values = ((size_t)l->inputs + l->outputs) * b;
    // A product refuses a scratch that is NULL, even for an empty batch.
    return value_type(l, type) == type ? 0 : matmul_scratch(type, max_size(values, 1));
}

const struct layer_kind linear = {"linear", linear_initialise, linear_forward, linear_backward,
                                  linear_scratch};

void append_linear(struct model *m, int outputs, float deviation) {
    int rows = m->out.height, inputs = m->out.channels;
    struct layer *l =
        append_layer(m, &linear, (struct shape){rows, 1, outputs}, 0, (size_t)inputs * outputs);
    settings_of(l)->deviation = deviation;
    l->flops = 2. * rows * inputs * outputs;
    layer_appended(m, l);
}

static void bias_initialise(const struct layer *l, float *parameters, size_t first_value,
                            size_t count, uint64_t seed, cudaStream_t stream) {
    (void)l, (void)first_value, (void)seed;
    fill(parameters, count, 0, stream);
}

// y = x is where the layer before wrote its outputs.
static void bias_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    int rows = b * l->in.height, cols = l->in.channels;
    (void)x;
    if (value_type(l, pass->type) == CUDA_R_32F)
        add_bias(y, as_floats(pass, parameters, 0, cols), rows, cols, 0, pass->stream);
    else
        add_value_bias(y, parameters, rows, cols, pass->type, pass->stream);
}

// dx = dy is there already.
static void bias_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    (void)parameters, (void)x, (void)y, (void)dx;
    sum_columns(dy, value_type(l, pass->type), NULL, gradients, pass->scratch, b * l->in.height,
                l->in.channels, pass->stream);
}

static size_t bias_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type;
    return (size_t)column_slices(b * l->in.height) * l->in.channels * sizeof(float);
}

const struct layer_kind bias = {"bias", bias_initialise, bias_forward, bias_backward, bias_scratch};

static void append_with_bias(struct model *m, const struct layer_kind *kind) {
    zoo_layer(append_layer(m, kind, m->out, 0, m->out.channels))->elementwise = 1;
}

void append_bias(struct model *m) {
    append_with_bias(m, &bias);
}

static void gelu_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    bias_gelu(x, parameters, y, b * l->in.height, l->in.channels, pass->type, pass->stream);
}

static void gelu_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    int rows = b * l->in.height, cols = l->in.channels;
    (void)y;
    bias_gelu_backward(x, parameters, dy, dx, pass->type, gradients, pass->scratch, rows, cols,
                       pass->stream);
}

const struct layer_kind gelu_layer = {"gelu", bias_initialise, gelu_forward, gelu_backward,
                                      bias_scratch};

void append_gelu(struct model *m) {
    append_with_bias(m, &gelu_layer);
}
