// Compare the products with those of common/layers/dense.c and zoo/layers/linear.c. This step
// computes with floats only, so products need no scratch memory.
#include "09_tensor/pair.h"
#include "09_tensor/sequence.h"
#include "common/kernels/kernels.h"
#include "zoo/layers/kinds.h"

// The kinds of the two layers of a pair, in the order of whole_kinds.
enum { DENSE, DENSE_RELU, LINEAR, KINDS };
static const struct layer_kind *const whole_kinds[KINDS] = {&dense, &dense_relu, &linear};
static const struct layer_kind first_kinds[KINDS], second_kinds[KINDS];

enum divided how_divided(const struct layer *l) {
    for (int i = 0; i < KINDS; i++)
        if (l->kind == &first_kinds[i] || l->kind == &second_kinds[i])
            return l->kind == &first_kinds[i] ? BY_OUTPUTS : BY_INPUTS;
    return NOT_DIVIDED;
}

// Returns the number of the layer's kind, KINDS: it is no product.
static int kind_of(const struct layer *l) {
    int i = 0;
    while (i < KINDS && l->kind != whole_kinds[i] && l->kind != &first_kinds[i] &&
           l->kind != &second_kinds[i])
        i++;
    return i;
}

int is_product(const struct layer *l) {
    return kind_of(l) < KINDS;
}

int is_linear(const struct layer *l) {
    return kind_of(l) == LINEAR;
}

const struct layer_kind *kind_in_pair(const struct layer *l, enum divided how) {
    return how == BY_OUTPUTS ? &first_kinds[kind_of(l)] : &second_kinds[kind_of(l)];
}

// A row of a product is a token of a linear layer, and a sample of a dense one. Between the two
// layers of a pair, each part has all tokens.
struct product product_sizes(const struct layer *l) {
    int tokens = how_divided(l) == BY_OUTPUTS ? l->out.height : l->in.height;
    return is_linear(l) ? (struct product){tokens, l->in.channels, l->out.channels}
                        : (struct product){1, l->inputs, l->outputs};
}

static void first_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    struct product p = product_sizes(l);
    const float *all_x = all_tokens(pass, x, (size_t)b * l->inputs);
    matmul(pass, 0, 1, b * p.rows, p.outputs, p.inputs, all_x, parameters, y); // y = x W^T
}

static void second_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, int b) {
    struct product p = product_sizes(l);
    matmul(pass, 0, 1, b * p.rows, p.outputs, p.inputs, x, parameters,
           shares_of(pass, y)); // shares of y = x W^T
    sum_shares(pass, y, (size_t)b * l->outputs);
}

static void first_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    struct product p = product_sizes(l);
    (void)y;
    if (dx && !l->dx_unused) {
        matmul(pass, 0, 0, b * p.rows, p.inputs, p.outputs, dy, parameters,
               shares_of(pass, dx)); // shares of dx = dy W
        sum_shares(pass, dx, (size_t)b * l->inputs);
    }
    const float *all_x = all_tokens(pass, x, (size_t)b * l->inputs);
    matmul(pass, 1, 0, p.outputs, p.inputs, b * p.rows, dy, all_x, gradients); // dW = dy^T x
}

static void second_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, float *dy, float *dx, float *gradients,
                            int b) {
    struct product p = product_sizes(l);
    const float *all_dy = all_tokens(pass, dy, (size_t)b * l->outputs);
    (void)y;
    if (dx && !l->dx_unused)
        matmul(pass, 0, 0, b * p.rows, p.inputs, p.outputs, all_dy, parameters, dx); // dx = dy W
    matmul(pass, 1, 0, p.outputs, p.inputs, b * p.rows, all_dy, x, gradients);       // dW = dy^T x
}

// A dense layer also has a bias, which each part adds to whole outputs, and may have a ReLU.
static void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    (how_divided(l) == BY_OUTPUTS ? first_forward : second_forward)(l, pass, parameters, x, y, b);
    const float *bias = as_floats(pass, parameters, (size_t)l->outputs * l->inputs, l->outputs);
    add_bias(y, bias, b, l->outputs, kind_of(l) == DENSE_RELU, pass->stream);
}

static void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    if (kind_of(l) == DENSE_RELU)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    (how_divided(l) == BY_OUTPUTS ? first_backward : second_backward)(l, pass, parameters, x, y, dy,
                                                                      dx, gradients, b);
    sum_rows(dy, gradients + (size_t)l->outputs * l->inputs, b, l->outputs, pass->stream);
}

static size_t pair_scratch(const struct layer *l, cudaDataType type, int b) {
    struct product p = product_sizes(l);
    int width = how_divided(l) == BY_OUTPUTS ? p.inputs : p.outputs;
    (void)type;
    return parts->own_tokens ? (size_t)b * p.rows * width * sizeof(float) : 0;
}

// Initial values are those of the whole model (shard_initialise), so these kinds set none.
static const struct layer_kind first_kinds[KINDS] = {
    {"dense", NULL, dense_forward, dense_backward, pair_scratch},
    {"dense_relu", NULL, dense_forward, dense_backward, pair_scratch},
    {"linear", NULL, first_forward, first_backward, pair_scratch}};
static const struct layer_kind second_kinds[KINDS] = {
    {"dense", NULL, dense_forward, dense_backward, pair_scratch},
    {"dense_relu", NULL, dense_forward, dense_backward, pair_scratch},
    {"linear", NULL, second_forward, second_backward, pair_scratch}};
