// Scratch memory holds the matrices of some heads at a time. Here T is the number of tokens, and D
// the width of a head.
#include "common/base/minmax.h"
#include "common/base/rng.h"
#include "common/kernels/kernels.h"
#include "common/layers/products.h"
#include "zoo/kernels/element_kernels.h"
#include "zoo/layers/kinds.h"
#include <math.h>

// Arrays of count heads.
struct part {
    size_t first; // number of its first head in the batch
    int count;    // heads
    int t, d;
    float *qkv, *outputs, *dqkv;     // [3, count, T, D], [count, T, D] (or their gradients), as qkv
    float *p, *dp;                   // [count, T, T]
    size_t qkv_at, outputs_at, p_at; // where their copies in bfloat16 lie in scratch
};

static size_t matrix_size(const struct layer *l) {
    return (size_t)settings_of(l)->attention.heads.tokens * settings_of(l)->attention.heads.width;
}

static size_t scores_size(const struct layer *l) {
    return (size_t)settings_of(l)->attention.heads.tokens * settings_of(l)->attention.heads.tokens;
}

static size_t floats_of_head(const struct layer *l) {
    return 7 * matrix_size(l) + 2 * scores_size(l);
}

// The values of a head that products read.
static size_t inputs_of_head(const struct layer *l) {
    return 4 * matrix_size(l) + scores_size(l);
}

// Returns the number of heads that are computed at a time.
static int heads_at_a_time(const struct layer *l, int b) {
    size_t fit = ATTENTION_WORKSPACE / sizeof(float) / floats_of_head(l);
    return (int)min_size(max_size(fit, 1), (size_t)b * settings_of(l)->attention.heads.heads);
}

// Returns the heads from number first on.
static struct part part_at(const struct layer *l, const struct pass *pass, size_t first, int b) {
    size_t all = (size_t)b * settings_of(l)->attention.heads.heads, n = heads_at_a_time(l, b);
    struct part p = {first, (int)min_size(n, all - first), settings_of(l)->attention.heads.tokens,
                     settings_of(l)->attention.heads.width};
    p.qkv = pass->scratch;
    p.outputs = p.qkv + 3 * n * matrix_size(l);
    p.dqkv = p.outputs + n * matrix_size(l);
    p.p = p.dqkv + 3 * n * matrix_size(l);
    p.dp = p.p + n * scores_size(l);
    p.qkv_at = n * floats_of_head(l) * sizeof(float);
    p.outputs_at = p.qkv_at + 3 * n * matrix_size(l) * type_size(pass->type);
    p.p_at = p.outputs_at + n * matrix_size(l) * type_size(pass->type);
    return p;
}

// Return the queries (0), keys (1) or values (2) of the part, as inputs of a product, and the
// gradients of them.
static const void *third(const struct pass *pass, const struct part *p, const void *qkv,
                         int number) {
    return parameter_at(pass, qkv, (size_t)number * p->count * p->t * p->d);
}

static float *gradients_of(const struct part *p, int number) {
    return p->dqkv + (size_t)number * p->count * p->t * p->d;
}

// The random numbers depend on the numbers of the heads in the whole model.
static void drop_scores(const struct layer *l, const struct pass *pass, const struct part *p,
                        const float *from, float *to) {
    size_t scores = scores_size(l);
    drop(&settings_of(l)->attention.dropout, pass, from, to,
         settings_of(l)->attention.heads.heads * scores, p->first * scores, p->count * scores);
}

// Returns the part's p or its gradients as an input of a product.
static const void *read_scores(const struct pass *pass, const struct part *p, const float *scores) {
    return rounded(pass, scores, (size_t)p->count * p->t * p->t, p->p_at);
}

// Copies the part's queries, keys and values from x, and computes p. Returns the copies as inputs
// of products.
static const void *compute_p(const struct layer *l, const struct pass *pass, const struct part *p,
                             const float *x) {
    split_heads(x, p->qkv, 3, p->first, p->count, settings_of(l)->attention.heads, pass->stream);
    const void *qkv = rounded(pass, p->qkv, 3 * p->count * matrix_size(l), p->qkv_at);
    matmul_batch(pass, p->count, 0, 1, p->t, p->t, p->d, third(pass, p, qkv, 0),
                 third(pass, p, qkv, 1), p->p); // queries keys^T
    causal_softmax(p->p, p->count, p->t, p->t, 1 / sqrtf((float)p->d), pass->stream);
    return qkv;
}

static void attention_forward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    int drops = pass->training && settings_of(l)->attention.dropout.rate > 0;
    struct part p;
    (void)parameters;
    for (size_t first = 0; first < (size_t)b * settings_of(l)->attention.heads.heads;
         first += p.count) {
        p = part_at(l, pass, first, b);
        const void *qkv = compute_p(l, pass, &p, x);
        if (drops)
            drop_scores(l, pass, &p, p.p, p.p);
        matmul_batch(pass, p.count, 0, 0, p.t, p.d, p.t, read_scores(pass, &p, p.p),
                     third(pass, &p, qkv, 2), p.outputs); // p values
        merge_heads(p.outputs, y, 1, first, p.count, settings_of(l)->attention.heads, pass->stream);
    }
}

// Computes the gradients of the part's queries, keys and values from those of its outputs.
static void part_backward(const struct layer *l, const struct pass *pass, const struct part *p,
                          const void *qkv) {
    int n = p->count, t = p->t, d = p->d, drops = settings_of(l)->attention.dropout.rate > 0;
    const void *doutputs = rounded(pass, p->outputs, n * matrix_size(l), p->outputs_at);
    if (drops)
        drop_scores(l, pass, p, p->p, p->dp); // what forward multiplied by the values
    const void *dropped = read_scores(pass, p, drops ? p->dp : p->p);
    matmul_batch(pass, n, 1, 0, t, d, t, dropped, doutputs, gradients_of(p, 2)); // p^T doutputs
    matmul_batch(pass, n, 0, 1, t, t, d, doutputs, third(pass, p, qkv, 2),
                 p->dp); // doutputs values^T
    if (drops)
        drop_scores(l, pass, p, p->dp, p->dp);
    causal_softmax_backward(p->p, p->dp, n, t, 1 / sqrtf((float)d), pass->stream);
    const void *dscores = read_scores(pass, p, p->dp);
    matmul_batch(pass, n, 0, 0, t, d, t, dscores, third(pass, p, qkv, 1),
                 gradients_of(p, 0)); // dscores keys
    matmul_batch(pass, n, 1, 0, t, d, t, dscores, third(pass, p, qkv, 0),
                 gradients_of(p, 1)); // dscores^T queries
}

static void attention_backward(const struct layer *l, const struct pass *pass,
                               const void *parameters, const float *x, float *y, float *dy,
                               float *dx, float *gradients, int b) {
    struct part p;
    (void)parameters, (void)y, (void)gradients;
    if (!dx)
        return;
    for (size_t first = 0; first < (size_t)b * settings_of(l)->attention.heads.heads;
         first += p.count) {
        p = part_at(l, pass, first, b);
        const void *qkv = compute_p(l, pass, &p, x);
        split_heads(dy, p.outputs, 1, first, p.count, settings_of(l)->attention.heads,
                    pass->stream);
        part_backward(l, pass, &p, qkv);
        merge_heads(p.dqkv, dx, 3, first, p.count, settings_of(l)->attention.heads, pass->stream);
    }
}

// For the arrays of a part and, in bfloat16, for the copies of those that products read.
static size_t attention_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t head = floats_of_head(l) * sizeof(float);
    if (type != CUDA_R_32F)
        head += inputs_of_head(l) * type_size(type);
    return heads_at_a_time(l, b) * head;
}

const struct layer_kind attention = {"attention", initialise_nothing, attention_forward,
                                     attention_backward, attention_scratch};

void append_attention(struct model *m, int heads, float dropout) {
    int tokens = m->out.height, width = m->out.channels / 3, number = m->count + m->inner_count;
    struct layer *l = model_append(m, &attention, (struct shape){tokens, 1, width}, 0, 0);
    settings_of(l)->attention.heads = (struct heads){tokens, heads, width / heads};
    settings_of(l)->attention.dropout = (struct dropping){.rate = dropout, .number = number};
    l->flops = 4. * tokens * tokens * width;
    layer_appended(m, l);
}
