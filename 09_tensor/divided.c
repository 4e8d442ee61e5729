#include "09_tensor/divided.h"
#include "09_tensor/pair.h"
#include "09_tensor/sequence.h"
#include "common/training/training_options.h"
#include "zoo/layers/inner.h"

struct parts *parts;
static char *reason; // where build_part wants the reason for a refusal
static int refused;

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

// Refuses to divide a number of values or heads that has a remainder.
static void want_divisor(int number, const char *of) {
    if (number % parts->count && !refused)
        refused = refuse(reason, "want a divisor of the %d %s", number, of);
}

static void resize(struct model *m, struct layer *l, int rows, int outputs, size_t parameters) {
    m->parameters += parameters - l->parameters;
    l->parameters = parameters;
    l->out = m->out = (struct shape){rows, 1, outputs};
    l->outputs = shape_size(l->out);
}

// The first layer of a pair computes all tokens, and its share of the outputs.
static void divide_first(struct model *m, struct layer *l, const struct layer *whole) {
    struct product p = product_sizes(l);
    if (groups_of(whole) == 1)
        want_divisor(p.outputs, "outputs of a dense layer");
    p.rows *= parts->own_tokens ? parts->count : 1;
    p.outputs /= parts->count;
    l->flops = 2. * p.rows * p.inputs * p.outputs;
    resize(m, l, p.rows, p.outputs, l->parameters / parts->count);
    l->kind = kind_in_pair(l, BY_OUTPUTS);
}

// The second one has its share of the inputs, and shares of all outputs, whose sums it keeps, or
// those of its own tokens.
static void divide_second(struct model *m, struct layer *l) {
    struct product p = product_sizes(l);
    resize(m, l, p.rows / (parts->own_tokens ? parts->count : 1), p.outputs, l->parameters);
    l->kind = kind_in_pair(l, BY_INPUTS);
    parts->pairs++;
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
        divide_first(m, l, whole);
        p->in_pair = 1;
    } else if (is_product(l)) {
        p->whole_products++;
    } else if (p->in_pair && (l->kind == &dropout || l->kind == &attention)) {
        dropping->shares = p->count;
        dropping->share = p->number;
        if (l->kind == &attention) {
            want_divisor(settings_of(l)->attention.heads, "heads");
            settings_of(l)->attention.heads /= p->count;
            l->workspace /= p->count;
        }
    } else if (p->own_tokens && l->kind == &embedding) {
        l->kind = &embedding_of_own;
        resize(m, l, l->out.height / p->count, l->out.channels, l->parameters);
    } else if (p->own_tokens && l->kind == &dropout) {
        l->kind = &dropout_of_own;
    }
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
    reason = why;
    refused = 0;
    p->whole = whole;
    append_hook = divide;
    int failed = model_build(m, options, set, why);
    append_hook = NULL;
    if (failed || refused)
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
        pieces.columns = product_sizes(l).inputs * parts;
        add_unit(s, weights * parts, pieces);
        add_unit(s, bias, copies);
    } else if (!z->inner) {
        add_unit(s, l->parameters, copies);
    }
}
