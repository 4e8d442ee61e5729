#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"
#include <math.h>

// Rows of the product: the samples of the batch, or all their tokens.
static int rows_of(const struct layer *l, int b) {
    return b * l->dense.rows;
}

static int width_in(const struct layer *l) {
    return l->inputs / l->dense.rows;
}

static int width_out(const struct layer *l) {
    return l->outputs / l->dense.rows;
}

static void dense_initialise(const struct layer *l, float *parameters, size_t first_value,
                             size_t count, uint64_t seed, cudaStream_t stream) {
    size_t weights = (size_t)width_out(l) * width_in(l), end = first_value + count;
    size_t normal = min_size(max_size(weights, first_value), end) - first_value;
    if (l->dense.deviation == 0) {
        fill_uniform(parameters, count, 1.f / sqrtf((float)width_in(l)), seed,
                     l->first + first_value, stream);
        return;
    }
    fill_normal(parameters, normal, l->dense.deviation, seed, l->first + first_value, stream);
    fill(parameters + normal, count - normal, 0, stream);
}

// Return x, dy and the bias as the calls below read them: the arrays themselves or, if the pass
// computes in bfloat16, copies in scratch of the other type.
static const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b);
static const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b);
static const float *read_bias(const struct layer *l, const struct pass *pass,
                              const void *parameters);

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    int rows = rows_of(l, b), outputs = width_out(l);
    const void *x_read = read_x(l, pass, x, b);
    matmul(pass, 0, 1, rows, outputs, width_in(l), x_read, parameters, 0, y); // y = x W^T
    add_bias(y, read_bias(l, pass, parameters), rows, outputs, l->kind == &dense_relu,
             pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    int rows = rows_of(l, b), inputs = width_in(l), outputs = width_out(l);
    float *dbias = gradients + (size_t)outputs * inputs;
    if (l->kind == &dense_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    const void *dy_read = read_dy(l, pass, dy, b);
    if (dx && !l->dx_unused)
        matmul(pass, 0, 0, rows, inputs, outputs, dy_read, parameters, 0, dx); // dx = dy W
    const void *x_read = read_x(l, pass, x, b);
    matmul(pass, 1, 0, outputs, inputs, rows, dy_read, x_read, 0, gradients); // dW = dy^T x
    if (l->dense.rows == 1)
        sum_rows(dy, dbias, b, outputs, pass->stream);
    else
        sum_pixels(pass, dy, dbias, b, l->dense.rows, outputs);
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
    size_t weights = (size_t)width_out(l) * width_in(l);
    return as_floats(pass, parameter_at(pass, parameters, weights), width_out(l), 0);
}

// For x and dy in bfloat16, and for a bias in float; then for the sums over the samples.
static size_t dense_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t x_and_dy = ((size_t)l->inputs + l->outputs) * b * type_size(type);
    size_t sums = l->dense.rows > 1 ? l->outputs * sizeof(float) : 0;
    return max_size(sums, type == CUDA_R_32F ? 0 : max_size(l->outputs * sizeof(float), x_and_dy));
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward,
                                 dense_scratch};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward, dense_backward,
                                      dense_scratch};

void append_dense(struct model *m, const struct layer_kind *kind, int outputs) {
    size_t inputs = shape_size(m->out);
    struct layer *l =
        model_append(m, kind, (struct shape){1, 1, outputs}, 0, (inputs + 1) * outputs);
    l->dense.rows = 1;
    l->flops = 2. * inputs * outputs;
}

void append_linear(struct model *m, int outputs, float deviation) {
    size_t inputs = m->out.channels;
    int tokens = m->out.height;
    struct layer *l =
        model_append(m, &dense, (struct shape){tokens, 1, outputs}, 0, (inputs + 1) * outputs);
    exempt_from_decay(m, l, outputs);
    l->dense.rows = tokens;
    l->dense.deviation = deviation;
    l->flops = 2. * tokens * inputs * outputs;
}
