// Compare the products with those of common/layers/dense.c and zoo/layers/linear.c.
#include "09_tensor/divided.h"
#include "09_tensor/tensor.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "common/training/training_options.h"
#include "zoo/layers/inner.h"

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

static struct parts *parts; // of the model of this process

// Returns the number of the layer's kind, KINDS: it is no product.
static int kind_of(const struct layer *l) {
    int i = 0;
    while (i < KINDS && l->kind != whole_kinds[i] && l->kind != &first_kinds[i] &&
           l->kind != &second_kinds[i])
        i++;
    return i;
}

static int is_linear(const struct layer *l) {
    return kind_of(l) == LINEAR;
}

// A row of a product is a token of a linear layer, and a sample of a dense one.
struct product product_of(const struct layer *l) {
    if (!is_linear(l))
        return (struct product){1, l->inputs, l->outputs};
    return (struct product){settings_of(l)->linear.rows, settings_of(l)->linear.inputs,
                            settings_of(l)->linear.outputs};
}

// With own_tokens, the functions below use the beginning of scratch for the tokens of all parts.
// For the first layer of a pair, these are the inputs and their gradients, and for the second one,
// the outputs and theirs. Returns how many floats these are for each sample.
static size_t floats_of_tokens(const struct layer *l) {
    struct product p = product_of(l);
    int width = how_divided(l) == BY_OUTPUTS ? p.inputs : p.outputs;
    return parts->own_tokens ? (size_t)p.rows * width : 0;
}

// Returns the pass for the rest of the layer, with the scratch after these tokens.
static struct pass after_tokens(const struct layer *l, const struct pass *pass, int b) {
    struct pass rest = *pass;
    if (parts->own_tokens) // else there may be no scratch
        rest.scratch = (float *)pass->scratch + b * floats_of_tokens(l);
    return rest;
}

// Returns the values of all tokens. This part has count values of its own.
static const float *all_tokens(const struct pass *pass, const float *own, size_t count) {
    if (!parts->own_tokens)
        return own;
    gather_parts(parts, own, pass->scratch, count, pass->stream);
    return pass->scratch;
}

// Returns where a product writes this part's shares of sums.
static float *shares_of(const struct pass *pass, float *sums) {
    return parts->own_tokens ? pass->scratch : sums;
}

// Adds up the shares of all parts. This part gets count sums.
static void sum_shares(const struct pass *pass, float *sums, size_t count) {
    if (parts->own_tokens)
        scatter_sums(parts, pass->scratch, sums, count, pass->stream);
    else
        sum_parts(parts, sums, count, pass->stream);
}

static void first_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    struct product p = product_of(l);
    struct pass rest = after_tokens(l, pass, b);
    const float *all_x = all_tokens(pass, x, (size_t)b * l->inputs);
    matmul(&rest, 0, 1, b * p.rows, p.outputs, p.inputs, all_x, parameters, y); // y = x W^T
}

static void second_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, int b) {
    struct product p = product_of(l);
    struct pass rest = after_tokens(l, pass, b);
    matmul(&rest, 0, 1, b * p.rows, p.outputs, p.inputs, x, parameters,
           shares_of(pass, y)); // shares of y = x W^T
    sum_shares(pass, y, (size_t)b * l->outputs);
}

static void first_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    struct product p = product_of(l);
    struct pass rest = after_tokens(l, pass, b);
    (void)y;
    if (dx && !l->dx_unused) {
        matmul(&rest, 0, 0, b * p.rows, p.inputs, p.outputs, dy, parameters,
               shares_of(pass, dx)); // shares of dx = dy W
        sum_shares(pass, dx, (size_t)b * l->inputs);
    }
    const float *all_x = all_tokens(pass, x, (size_t)b * l->inputs);
    matmul(&rest, 1, 0, p.outputs, p.inputs, b * p.rows, dy, all_x, gradients); // dW = dy^T x
}

static void second_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                            const float *x, float *y, float *dy, float *dx, float *gradients,
                            int b) {
    struct product p = product_of(l);
    struct pass rest = after_tokens(l, pass, b);
    const float *all_dy = all_tokens(pass, dy, (size_t)b * l->outputs);
    (void)y;
    if (dx && !l->dx_unused)
        matmul(&rest, 0, 0, b * p.rows, p.inputs, p.outputs, all_dy, parameters, dx); // dx = dy W
    matmul(&rest, 1, 0, p.outputs, p.inputs, b * p.rows, all_dy, x, gradients);       // dW = dy^T x
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

static size_t divided_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t tokens = floats_of_tokens(l) * b * sizeof(float);
    return tokens + (is_linear(l) ? linear : dense).scratch(l, type, b);
}

// Initial values are those of the whole model (shard_initialise), so these kinds set none.
static const struct layer_kind first_kinds[KINDS] = {
    {"dense", NULL, dense_forward, dense_backward, divided_scratch},
    {"dense_relu", NULL, dense_forward, dense_backward, divided_scratch},
    {"linear", NULL, first_forward, first_backward, divided_scratch}};
static const struct layer_kind second_kinds[KINDS] = {
    {"dense", NULL, dense_forward, dense_backward, divided_scratch},
    {"dense_relu", NULL, dense_forward, dense_backward, divided_scratch},
    {"linear", NULL, second_forward, second_backward, divided_scratch}};

// With own_tokens, each part looks up all tokens of the batch in scratch, because this costs
// little, and keeps its own.
static size_t floats_of_batch(const struct layer *l, int b) {
    return (size_t)b * l->inputs * l->out.channels;
}

static struct pass after_batch(const struct layer *l, const struct pass *pass, int b) {
    struct pass rest = *pass;
    rest.scratch = (float *)pass->scratch + floats_of_batch(l, b);
    return rest;
}

static void embed_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    struct pass rest = after_batch(l, pass, b);
    size_t own = (size_t)b * l->outputs;
    embedding.forward(l, &rest, parameters, x, pass->scratch, b);
    CUDA_CHECK(cudaMemcpyAsync(y, (float *)pass->scratch + parts->number * own, own * sizeof *y,
                               cudaMemcpyDeviceToDevice, pass->stream));
}

// The tokens of other parts add nothing to the gradients.
static void embed_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    struct pass rest = after_batch(l, pass, b);
    size_t own = (size_t)b * l->outputs;
    float *all = pass->scratch;
    CUDA_CHECK(cudaMemsetAsync(all, 0, floats_of_batch(l, b) * sizeof *all, pass->stream));
    CUDA_CHECK(cudaMemcpyAsync(all + parts->number * own, dy, own * sizeof *all,
                               cudaMemcpyDeviceToDevice, pass->stream));
    embedding.backward(l, &rest, parameters, x, y, all, dx, gradients, b);
}

static size_t embed_scratch(const struct layer *l, cudaDataType type, int b) {
    return floats_of_batch(l, b) * sizeof(float) + embedding.scratch(l, type, b);
}

static const struct layer_kind embedding_of_own = {"embedding", NULL, embed_forward, embed_backward,
                                                   embed_scratch};

// With own_tokens, this part has rows number * b to number * b + b of the batch, if a row is what a
// sample leaves of its tokens to each part.
static struct pass own_rows(const struct pass *pass, int b) {
    struct pass own = *pass;
    own.first_sample = pass->first_sample * parts->count + (uint64_t)parts->number * b;
    return own;
}

static void drop_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    struct pass own = own_rows(pass, b);
    dropout.forward(l, &own, parameters, x, y, b);
}

static void drop_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    struct pass own = own_rows(pass, b);
    dropout.backward(l, &own, parameters, x, y, dy, dx, gradients, b);
}

static const struct layer_kind dropout_of_own = {"dropout", NULL, drop_forward, drop_backward};

static int is_product(const struct layer *l) {
    return kind_of(l) < KINDS;
}

// Layers inside of a pair compute each value, or each head, on its own.
static int can_be_inside(const struct layer *l) {
    return zoo_layer(l)->elementwise || l->kind == &attention;
}

// Returns 1 if a product of a whole model and the next one can be a pair.
static int begins_pair(const struct model *whole, const struct layer *l) {
    const struct layer *around = zoo_layer(l)->around;
    const struct layer *end = around ? zoo_layer(around)->inner_end : whole->layers + whole->count;
    do
        l++;
    while (l < end && can_be_inside(l));
    return l < end && is_product(l);
}

// Queries, keys and values are three matrices in one. Each part has a share of each of them.
static int groups_of(const struct layer *l) {
    const struct layer *next = zoo_layer(&l[1])->elementwise ? l + 2 : l + 1;
    return next->kind == &attention ? 3 : 1;
}

// The bias of the first layer of a pair may be a layer of its own.
static int is_bias_of_first(const struct layer *l) {
    return zoo_layer(l)->elementwise && l->parameters && how_divided(l - 1) == BY_OUTPUTS;
}

static void resize(struct model *m, struct layer *l, int rows, int outputs, size_t parameters) {
    m->parameters += parameters - l->parameters;
    l->parameters = parameters;
    l->out = m->out = (struct shape){rows, 1, outputs};
    l->outputs = shape_size(l->out);
}

// The first layer of a pair computes all tokens, and its share of the outputs.
static void divide_first(struct model *m, struct layer *l) {
    struct product p = product_of(l);
    p.rows *= parts->own_tokens ? parts->count : 1;
    p.outputs /= parts->count;
    l->flops = 2. * p.rows * p.inputs * p.outputs;
    resize(m, l, p.rows, p.outputs, l->parameters / parts->count);
    if (is_linear(l)) {
        settings_of(l)->linear.rows = p.rows;
        settings_of(l)->linear.outputs = p.outputs;
    }
    l->kind = &first_kinds[kind_of(l)];
}

// The second one has its share of the inputs, and shares of all outputs, whose sums it keeps, or
// those of its own tokens.
static void divide_second(struct model *m, struct layer *l) {
    struct product p = product_of(l);
    resize(m, l, p.rows / (parts->own_tokens ? parts->count : 1), p.outputs, l->parameters);
    l->kind = &second_kinds[kind_of(l)];
}

static void divide(struct model *m, struct layer *l) {
    struct parts *p = parts;
    const struct layer *whole = zoo_layer(l)->around
                                    ? zoo_model(p->whole)->inner + (l - zoo_model(m)->inner)
                                    : p->whole->layers + (l - m->layers);
    struct dropping *dropping =
        l->kind == &attention ? &settings_of(l)->attention.dropout : &settings_of(l)->dropout;
    if (is_product(l) && p->in_pair) {
        divide_second(m, l);
        p->in_pair = 0;
    } else if (is_product(l) && begins_pair(p->whole, whole)) {
        divide_first(m, l);
        p->in_pair = 1;
    } else if (p->in_pair && (l->kind == &dropout || l->kind == &attention)) {
        dropping->shares = p->count;
        dropping->share = p->number;
        if (l->kind == &attention) {
            settings_of(l)->attention.heads = settings_of(whole)->attention.heads;
            settings_of(l)->attention.heads.heads /= p->count;
            l->workspace /= p->count;
        }
    } else if (p->own_tokens && l->kind == &embedding) {
        l->kind = &embedding_of_own;
        resize(m, l, l->out.height / p->count, l->out.channels, l->parameters);
    } else if (p->own_tokens && l->kind == &dropout) {
        l->kind = &dropout_of_own;
    }
}

// Counts the products. Returns 0, or -1 if a layer cannot be divided equally.
static int check_and_count(const struct layer *l, const struct layer *whole, int count,
                           char why[WHY_SIZE]) {
    for (int i = 0; i < count; i++) {
        int heads = l[i].kind == &attention ? settings_of(&whole[i])->attention.heads.heads : 0;
        enum divided how = how_divided(&l[i]);
        int divided = how == BY_OUTPUTS && groups_of(&l[i]) == 1;
        int outputs = divided ? product_of(&whole[i]).outputs : 0;
        if (heads % parts->count)
            return refuse(why, "want a divisor of the %d heads", heads);
        if (outputs % parts->count)
            return refuse(why, "want a divisor of the %d outputs of a dense layer", outputs);
        parts->pairs += how == BY_INPUTS;
        parts->whole_products += is_product(&l[i]) && how == NOT_DIVIDED;
    }
    return 0;
}

int build_part(struct model *m, const struct model *whole, struct parts *p,
               const struct training_options *options, const struct dataset *set,
               char why[WHY_SIZE]) {
    if (p->count == 1)
        return model_build(m, options, set, why);
    if (p->own_tokens && !set->tokens)
        return refuse(why, "--sequence 1 divides tokens, and --model %s has none", options->model);
    if (p->own_tokens && set->inputs % p->count)
        return refuse(why, "--sequence 1 needs a divisor of the %d tokens", set->inputs);
    parts = p;
    p->whole = whole;
    append_hook = divide;
    int failed = model_build(m, options, set, why);
    append_hook = NULL;
    if (failed || check_and_count(m->layers, whole->layers, m->count, why))
        return -1;
    const struct zoo_model *inner = zoo_model(m);
    if (inner && check_and_count(inner->inner, zoo_model(whole)->inner, inner->count, why))
        return -1;
    if (!p->pairs)
        return refuse(why, "--model %s has no pairs of dense layers, and only they can be divided",
                      options->model);
    return 0;
}

void shard_layer(struct sharding *s, const struct layer *l, int first, int parts) {
    enum divided how = is_bias_of_first(l) ? BY_OUTPUTS : how_divided(l);
    int groups = how == BY_OUTPUTS ? groups_of(l) : 0;
    size_t of_dense = how && !is_linear(l) ? l->outputs : 0;
    size_t bias = is_bias_of_first(l) ? l->parameters : of_dense;
    size_t weights = l->parameters - bias;
    struct division pieces = {.first = first, .shards = parts}, copies = pieces;
    copies.copies = parts > 1;
    const struct zoo_layer *z = zoo_layer(l);
    for (const struct layer *i = z->inner; i < z->inner_end; i = layer_after(i))
        shard_layer(s, i, first, parts);
    if (how == BY_OUTPUTS) {
        for (int i = 0; i < groups; i++)
            add_unit(s, weights * parts / groups, pieces);
        for (int i = 0; i < groups; i++)
            add_unit(s, bias * parts / groups, pieces);
    } else if (how == BY_INPUTS) {
        pieces.columns = product_of(l).inputs * parts;
        add_unit(s, weights * parts, pieces);
        add_unit(s, bias, copies);
    } else if (!z->inner) {
        add_unit(s, l->parameters, copies);
    }
}
