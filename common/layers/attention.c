// Scratch memory holds the matrices of some heads at a time. Here T is the number of tokens, and D
// the width of a head.
#include "common/base/minmax.h"
#include "common/base/rng.h"
#include "common/kernels/kernels.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"
#include <math.h>

struct part {
    size_t first; // number of its first head in the batch
    int count;    // heads
    int t, d;
    float *qkv, *outputs, *dqkv; // [3, count, T, D], [count, T, D] (or their gradients), as qkv
    float *p, *dp;               // [count, T, T]
    size_t behind;               // bytes of scratch that the arrays take
};

static size_t matrix_size(const struct layer *l) {
    return (size_t)l->attention.heads.tokens * l->attention.heads.width;
}

static size_t scores_size(const struct layer *l) {
    return (size_t)l->attention.heads.tokens * l->attention.heads.tokens;
}

static size_t floats_of_head(const struct layer *l) {
    return 7 * matrix_size(l) + 2 * scores_size(l);
}

// Returns the number of heads that are computed at a time.
static int heads_at_a_time(const struct layer *l, int b) {
    size_t fit = ATTENTION_WORKSPACE / sizeof(float) / floats_of_head(l);
    return (int)min_size(max_size(fit, 1), (size_t)b * l->attention.heads.heads);
}

// Returns the heads from number first on.
static struct part part_at(const struct layer *l, const struct pass *pass, size_t first, int b) {
    size_t all = (size_t)b * l->attention.heads.heads, n = heads_at_a_time(l, b);
    float *scratch = pass->scratch;
    struct part p = {first, (int)min_size(n, all - first), l->attention.heads.tokens,
                     l->attention.heads.width};
    p.qkv = scratch;
    p.outputs = p.qkv + 3 * n * matrix_size(l);
    p.dqkv = p.outputs + n * matrix_size(l);
    p.p = p.dqkv + 3 * n * matrix_size(l);
    p.dp = p.p + n * scores_size(l);
    p.behind = n * floats_of_head(l) * sizeof(float);
    return p;
}

// Returns the queries (0), keys (1) or values (2) of the part, or their gradients.
static float *third(const struct part *p, float *qkv, int number) {
    return qkv + (size_t)number * p->count * p->t * p->d;
}

static void drop(const struct layer *l, const struct pass *pass, const struct part *p,
                 const float *from, float *to) {
    drop_values(from, to, p->count * scores_size(l), l->attention.dropout,
                rng_bits(pass->seed, l->attention.number),
                (pass->first_sample * l->attention.heads.heads + p->first) * scores_size(l),
                pass->stream);
}

// Copies the part's queries, keys and values from x, and computes p.
static void compute_p(const struct layer *l, const struct pass *pass, const struct part *p,
                      const float *x) {
    split_heads(x, p->qkv, 3, p->first, p->count, l->attention.heads, pass->stream);
    matmul_batch(pass, p->count, 0, 1, p->t, p->t, p->d, third(p, p->qkv, 0), third(p, p->qkv, 1),
                 p->p, p->behind); // queries keys^T
    causal_softmax(p->p, p->count, p->t, 1 / sqrtf((float)p->d), pass->stream);
}

static void attention_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    int drops = pass->training && l->attention.dropout > 0;
    struct part p;
    (void)parameters;
    for (size_t first = 0; first < (size_t)b * l->attention.heads.heads; first += p.count) {
        p = part_at(l, pass, first, b);
        compute_p(l, pass, &p, x);
        if (drops)
            drop(l, pass, &p, p.p, p.p);
        matmul_batch(pass, p.count, 0, 0, p.t, p.d, p.t, p.p, third(&p, p.qkv, 2), p.outputs,
                     p.behind); // p values
        merge_heads(p.outputs, y, 1, first, p.count, l->attention.heads, pass->stream);
    }
}

// Computes the gradients of the part's queries, keys and values from those of its outputs.
static void part_backward(const struct layer *l, const struct pass *pass, const struct part *p) {
    int t = p->t, d = p->d, drops = l->attention.dropout > 0;
    if (drops)
        drop(l, pass, p, p->p, p->dp); // what forward multiplied by the values
    matmul_batch(pass, p->count, 1, 0, t, d, t, drops ? p->dp : p->p, p->outputs,
                 third(p, p->dqkv, 2), p->behind); // dvalues = p^T doutputs
    matmul_batch(pass, p->count, 0, 1, t, t, d, p->outputs, third(p, p->qkv, 2), p->dp,
                 p->behind); // dp = doutputs values^T
    if (drops)
        drop(l, pass, p, p->dp, p->dp);
    causal_softmax_backward(p->p, p->dp, p->count, t, 1 / sqrtf((float)d), pass->stream);
    matmul_batch(pass, p->count, 0, 0, t, d, t, p->dp, third(p, p->qkv, 1), third(p, p->dqkv, 0),
                 p->behind); // dqueries = dscores keys
    matmul_batch(pass, p->count, 1, 0, t, d, t, p->dp, third(p, p->qkv, 0), third(p, p->dqkv, 1),
                 p->behind); // dkeys = dscores^T queries
}

static void attention_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    struct part p;
    (void)parameters, (void)y, (void)gradients;
    if (!dx)
        return;
    for (size_t first = 0; first < (size_t)b * l->attention.heads.heads; first += p.count) {
        p = part_at(l, pass, first, b);
        compute_p(l, pass, &p, x);
        split_heads(dy, p.outputs, 1, first, p.count, l->attention.heads, pass->stream);
        part_backward(l, pass, &p);
        merge_heads(p.dqkv, dx, 3, first, p.count, l->attention.heads, pass->stream);
    }
}

// For the part and, in bfloat16, for the two inputs of a product.
static size_t attention_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t inputs = matrix_size(l) + max_size(scores_size(l), matrix_size(l));
    size_t head = floats_of_head(l) * sizeof(float);
    if (type != CUDA_R_32F)
        head += inputs * type_size(type);
    return heads_at_a_time(l, b) * head;
}

const struct layer_kind attention = {"attention", initialise_nothing, attention_forward,
                                     attention_backward, attention_scratch};

void append_attention(struct model *m, int heads, float dropout) {
    int tokens = m->out.height, width = m->out.channels / 3, number = m->count + m->inner_count;
    struct layer *l = model_append(m, &attention, (struct shape){tokens, 1, width}, 0, 0);
    l->attention.heads = (struct heads){tokens, heads, width / heads};
    l->attention.dropout = dropout;
    l->attention.number = number;
    l->flops = 4. * tokens * tokens * width;
}
