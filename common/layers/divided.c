// Dense layers that several parts divide, in pairs. Compare with dense.c.
#include "common/base/minmax.h"
#include "common/kernels/kernels.h"
#include "common/layers/dense.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"

// With own_tokens, the functions below use the beginning of scratch for the tokens of all parts:
// the inputs of the first layer of a pair and their gradients, or the outputs of the second one and
// theirs. Returns how many floats these are for each sample.
static size_t floats_of_tokens(const struct layer *l) {
    int width = l->divided == BY_OUTPUTS ? l->dense.inputs : l->dense.outputs;
    return l->parts.own_tokens ? (size_t)l->dense.rows * width : 0;
}

// Returns the pass for the rest of the layer, with the scratch behind these tokens.
static struct pass behind_tokens(const struct layer *l, const struct pass *pass, int b) {
    struct pass rest = *pass;
    if (l->parts.own_tokens) // else there may be no scratch
        rest.scratch = (float *)pass->scratch + b * floats_of_tokens(l);
    return rest;
}

// Returns the values of all tokens. This part has count values of its own.
static const float *all_tokens(const struct layer *l, const struct pass *pass, const float *own,
                               size_t count) {
    if (!l->parts.own_tokens)
        return own;
    pass->all_gather(pass->group, own, pass->scratch, count, pass->stream);
    return pass->scratch;
}

// Returns where a product writes this part's shares of sums.
static float *shares_of(const struct layer *l, const struct pass *pass, float *sums) {
    return l->parts.own_tokens ? pass->scratch : sums;
}

// Adds up the shares of all parts. This part gets count sums.
static void sum_shares(const struct layer *l, const struct pass *pass, float *sums, size_t count) {
    if (l->parts.own_tokens)
        pass->reduce_scatter(pass->group, pass->scratch, sums, count, pass->stream);
    else
        pass->sum(pass->group, sums, count, pass->stream);
}

// dbias = the sum of dy over the samples and, if each has several rows, over these.
static void sum_bias(const struct layer *l, const struct pass *pass, const float *dy, float *dbias,
                     int b) {
    int outputs = l->dense.outputs, rows = l->outputs / outputs;
    if (rows == 1)
        sum_rows(dy, dbias, b, outputs, pass->stream);
    else
        sum_pixels(pass, dy, dbias, b, rows, outputs);
}

static void first_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    struct pass rest = behind_tokens(l, pass, b);
    dense.forward(l, &rest, parameters, all_tokens(l, pass, x, (size_t)b * l->inputs), y, b);
}

static void second_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, int b) {
    int rows = b * l->dense.rows, inputs = l->dense.inputs, outputs = l->dense.outputs;
    struct pass rest = behind_tokens(l, pass, b);
    matmul(&rest, 0, 1, rows, outputs, inputs, x, parameters,
           shares_of(l, pass, y)); // shares of y = x W^T
    sum_shares(l, pass, y, (size_t)b * l->outputs);
    const float *bias = as_floats(&rest, parameters, (size_t)outputs * inputs, outputs);
    add_bias(y, bias, b * (l->outputs / outputs), outputs, l->dense.relu, pass->stream);
}

static void first_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    int rows = b * l->dense.rows, inputs = l->dense.inputs, outputs = l->dense.outputs;
    struct pass rest = behind_tokens(l, pass, b);
    if (l->dense.relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (dx && !l->dx_unused) {
        matmul(&rest, 0, 0, rows, inputs, outputs, dy, parameters,
               shares_of(l, pass, dx)); // shares of dx = dy W
        sum_shares(l, pass, dx, (size_t)b * l->inputs);
    }
    const float *all_x = all_tokens(l, pass, x, (size_t)b * l->inputs);
    matmul(&rest, 1, 0, outputs, inputs, rows, dy, all_x, gradients); // dW = dy^T x
    sum_bias(l, pass, dy, gradients + (size_t)outputs * inputs, b);
}

static void second_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, float *dy, float *dx, float *gradients,
                            int b) {
    int rows = b * l->dense.rows, inputs = l->dense.inputs, outputs = l->dense.outputs;
    struct pass rest = behind_tokens(l, pass, b);
    if (l->dense.relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    const float *all_dy = all_tokens(l, pass, dy, (size_t)b * l->outputs);
    if (dx && !l->dx_unused)
        matmul(&rest, 0, 0, rows, inputs, outputs, all_dy, parameters, dx); // dx = dy W
    matmul(&rest, 1, 0, outputs, inputs, rows, all_dy, x, gradients);       // dW = dy^T x
    sum_bias(l, pass, dy, gradients + (size_t)outputs * inputs, b);
}

static size_t divided_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t tokens = floats_of_tokens(l) * b * sizeof(float);
    return tokens + dense.scratch(l, type, b);
}

static void divided_initialise(const struct layer *l, float *parameters, size_t first_value,
                               size_t count, uint64_t seed, cudaStream_t stream) {
    dense.initialise(l, parameters, first_value, count, seed, stream);
}

static const struct layer_kind first = {"dense", divided_initialise, first_forward, first_backward,
                                        divided_scratch};
static const struct layer_kind first_relu = {"dense_relu", divided_initialise, first_forward,
                                             first_backward, divided_scratch};
static const struct layer_kind second = {"dense", divided_initialise, second_forward,
                                         second_backward, divided_scratch};
static const struct layer_kind second_relu = {"dense_relu", divided_initialise, second_forward,
                                              second_backward, divided_scratch};

void begin_pair(struct model *m, int groups) {
    m->groups = m->parts.count > 1 ? groups : 0;
}

struct layer *append_divided(struct model *m, const struct layer_kind *kind, int rows, int inputs,
                             int outputs) {
    int relu = kind == &dense_relu, shares = m->parts.own_tokens ? m->parts.count : 1;
    struct layer *l;
    if (m->groups) {
        m->held = HOLDS_COLUMNS;
        l = append_product(m, relu ? &first_relu : &first, rows * shares, rows * shares, inputs,
                           outputs / m->parts.count);
        l->divided = BY_OUTPUTS;
        l->dense.groups = m->groups;
        m->groups = 0;
    } else {
        m->held = shares > 1 ? HOLDS_TOKENS : HOLDS_ALL;
        l = append_product(m, relu ? &second_relu : &second, rows, rows / shares, inputs, outputs);
        l->divided = BY_INPUTS;
    }
    return l;
}
