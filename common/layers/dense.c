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

// Return x, dy and the bias as the calls below read them: the arrays themselves or, if the pass
// computes in bfloat16, copies in scratch of the other type.
static const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b);
static const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b);
static const float *read_bias(const struct layer *l, const struct pass *pass,
                              const void *parameters);

// With own_tokens, the functions below use the beginning of scratch for the tokens of all parts:
// the inputs of the first layer of a pair and their gradients, or the outputs of the second one and
// theirs. Returns how many floats these are for each sample.
static size_t floats_of_tokens(const struct layer *l) {
    int pair = l->dense.groups || l->dense.inputs_divided;
    size_t width = l->dense.groups ? l->dense.inputs : l->dense.outputs;
    return pair && l->parts.own_tokens ? l->dense.rows * width : 0;
}

// Returns the pass for the rest of the layer, with the scratch behind these tokens.
static struct pass behind_tokens(const struct layer *l, const struct pass *pass, int b) {
    struct pass rest = *pass;
    if (floats_of_tokens(l)) // else there may be no scratch
        rest.scratch = (float *)pass->scratch + b * floats_of_tokens(l);
    return rest;
}

// Returns the values of all tokens. This part has count values of its own.
static const float *all_tokens(const struct layer *l, const struct pass *pass, const float *own,
                               size_t count) {
    if (!floats_of_tokens(l))
        return own;
    pass->all_gather(pass->group, own, pass->scratch, count, pass->stream);
    return pass->scratch;
}

// Returns where a product writes this part's shares of sums.
static float *shares_of(const struct layer *l, const struct pass *pass, float *sums) {
    return floats_of_tokens(l) ? pass->scratch : sums;
}

// Adds up the shares of all parts. This part gets count sums.
static void sum_shares(const struct layer *l, const struct pass *pass, float *sums, size_t count) {
    if (floats_of_tokens(l))
        pass->reduce_scatter(pass->group, pass->scratch, sums, count, pass->stream);
    else
        pass->sum(pass->group, sums, count, pass->stream);
}

static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    int rows = rows_of(l, b), outputs = l->dense.outputs, sums = l->dense.inputs_divided;
    struct pass rest = behind_tokens(l, pass, b);
    if (l->dense.groups)
        x = all_tokens(l, pass, x, (size_t)b * l->inputs);
    const void *x_read = read_x(l, &rest, x, b);
    matmul(&rest, 0, 1, rows, outputs, l->dense.inputs, x_read, parameters, 0,
           sums ? shares_of(l, pass, y) : y); // y = x W^T
    if (sums)
        sum_shares(l, pass, y, (size_t)b * l->outputs);
    add_bias(y, read_bias(l, &rest, parameters), b * (l->outputs / outputs), outputs,
             l->kind == &dense_relu, pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    int rows = rows_of(l, b), inputs = l->dense.inputs, outputs = l->dense.outputs;
    int pixels = l->outputs / outputs, sums = l->dense.groups > 0;
    float *dbias = gradients + (size_t)outputs * inputs;
    struct pass rest = behind_tokens(l, pass, b);
    const float *dy_all = dy;
    if (l->kind == &dense_relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (l->dense.inputs_divided)
        dy_all = all_tokens(l, pass, dy, (size_t)b * l->outputs);
    const void *dy_read = read_dy(l, &rest, dy_all, b);
    if (dx && !l->dx_unused) {
        matmul(&rest, 0, 0, rows, inputs, outputs, dy_read, parameters, 0,
               sums ? shares_of(l, pass, dx) : dx); // dx = dy W
        if (sums)
            sum_shares(l, pass, dx, (size_t)b * l->inputs);
    }
    if (l->dense.groups)
        x = all_tokens(l, pass, x, (size_t)b * l->inputs);
    const void *x_read = read_x(l, &rest, x, b);
    matmul(&rest, 1, 0, outputs, inputs, rows, dy_read, x_read, 0, gradients); // dW = dy^T x
    if (pixels == 1)
        sum_rows(dy, dbias, b, outputs, pass->stream);
    else
        sum_pixels(pass, dy, dbias, b, pixels, outputs);
}

static const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b) {
    return rounded(pass, x, (size_t)rows_of(l, b) * l->dense.inputs, 0);
}

static const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b) {
    size_t behind_x = (size_t)rows_of(l, b) * l->dense.inputs * type_size(pass->type);
    return rounded(pass, dy, (size_t)rows_of(l, b) * l->dense.outputs, behind_x);
}

// The product has read its inputs, so scratch is free again.
static const float *read_bias(const struct layer *l, const struct pass *pass,
                              const void *parameters) {
    size_t weights = (size_t)l->dense.outputs * l->dense.inputs;
    return as_floats(pass, parameter_at(pass, parameters, weights), l->dense.outputs, 0);
}

// For x and dy in bfloat16, and for a bias in float; then for the sums over the samples.
static size_t dense_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t x_and_dy =
        ((size_t)l->dense.inputs + l->dense.outputs) * rows_of(l, b) * type_size(type);
    size_t sums = l->outputs > l->dense.outputs ? l->outputs * sizeof(float) : 0;
    size_t rest = type == CUDA_R_32F ? 0 : max_size(l->outputs * sizeof(float), x_and_dy);
    return max_size(sums, floats_of_tokens(l) * b * sizeof(float) + rest);
}

const struct layer_kind dense = {"dense", dense_initialise, dense_forward, dense_backward,
                                 dense_scratch};
const struct layer_kind dense_relu = {"dense_relu", dense_initialise, dense_forward, dense_backward,
                                      dense_scratch};

void begin_pair(struct model *m, int groups) {
    m->groups = m->parts.count > 1 ? groups : 0;
}

// Appends a layer whose inputs are rows of this many values, or this part's share of it.
static struct layer *append(struct model *m, const struct layer_kind *kind, int rows, int inputs,
                            int outputs) {
    int groups = m->groups, inputs_divided = m->held == HOLDS_COLUMNS;
    int shares = m->parts.own_tokens ? m->parts.count : 1; // of the tokens outside of pairs
    int product = groups ? rows * shares : rows, result = product;
    if (groups) {
        outputs /= m->parts.count;
        m->held = HOLDS_COLUMNS;
    } else if (inputs_divided) {
        result = product / shares;
        m->held = shares > 1 ? HOLDS_TOKENS : HOLDS_ALL;
    }
    m->groups = 0;
    struct layer *l = model_append(m, kind, (struct shape){result, 1, outputs}, 0,
                                   ((size_t)inputs + 1) * outputs);
    l->dense.rows = product;
    l->dense.inputs = inputs;
    l->dense.outputs = outputs;
    l->dense.groups = groups;
    l->dense.inputs_divided = inputs_divided;
    l->flops = 2. * product * inputs * outputs;
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
