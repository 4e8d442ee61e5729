// The cache holds the keys and values of attention. Those of a token depend on the tokens before it
// only, so a new token changes none of them: with a cache, only the new token goes through the
// model. A model is a list of layers, so this program gives it two other kinds of layers, which
// know the position of the token and the cache.
#include "07_large_models/predict.h"
#include "common/device/device.h"
#include "zoo/layers/inner.h"
#include "zoo/models/models.h"
#include <math.h>
#include <stdlib.h>

static struct {
    int context, position; // position: of the token in its window
    // Of each attention layer, [context, keys and values].
    float *kept[MOST_INNER_LAYERS + MOST_LAYERS];
} cache;

// The vectors of the tokens come first, and then those of all places.
static void forward_embedding(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    const float *tokens = parameters,
                *places = tokens + (size_t)settings_of(l)->tokens * l->outputs;
    look_up(x, tokens, y, b, l->outputs, settings_of(l)->tokens, pass->stream);
    add_bias(y, places + (size_t)cache.position * l->outputs, b, l->outputs, 0, pass->stream);
}

// x has the query, the key and the value of the token.
static void forward_attention(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, int b) {
    int heads = settings_of(l)->attention.heads;
    size_t width = l->outputs;
    float *kept = cache.kept[settings_of(l)->attention.dropout.number];
    (void)parameters, (void)b;
    CUDA_CHECK(cudaMemcpyAsync(kept + 2 * width * cache.position, x + width, 2 * width * sizeof *x,
                               cudaMemcpyDeviceToDevice, pass->stream));
    struct attention_inputs a = {.samples = 1,
                                 .heads = heads,
                                 .width = width / heads,
                                 .queries = 1,
                                 .keys = cache.position + 1,
                                 .before = cache.position,
                                 .q = x,
                                 .k = kept,
                                 .v = kept + width,
                                 .q_pitch = width,
                                 .key_pitch = 2 * width};
    attend(&a, y, y + width, pass->stream);
}

static const struct layer_kind cached_embedding = {"embedding", NULL, forward_embedding};
static const struct layer_kind cached_attention = {"attention", NULL, forward_attention};

int predictor_build(struct predictor *p, const char *shape, char why[WHY_SIZE]) {
    if (build_gpt_of(&p->whole.model, shape, 0, why) ||
        build_gpt_of(&p->single.model, shape, 1, why))
        return -1;
    struct model *m = &p->single.model;
    p->context = cache.context = p->whole.model.layers[0].inputs;
    p->classes = m->out.channels;
    m->layers[0].kind = &cached_embedding;
    struct zoo_model *z = zoo_model(m);
    for (struct layer *l = z->inner; l < z->inner + z->count; l++)
        if (l->kind == &attention)
            l->kind = &cached_attention;
    return 0;
}

static void allocate(struct run *r) {
    const struct model *m = &r->model;
    DEVICE_ALLOC(r->activations[0], "activations", m->layers[0].inputs * sizeof(float));
    for (int i = 0; i < m->count; i++)
        DEVICE_ALLOC(r->activations[i + 1], "activations",
                     ((size_t)m->layers[i].outputs + m->layers[i].workspace) * sizeof(float));
    DEVICE_ALLOC(r->scratch, "scratch", model_scratch(m, CUDA_R_32F, 1));
}

void predictor_start(struct predictor *p, const float *parameters, int use_cache) {
    size_t bytes = p->whole.model.parameters * sizeof *parameters;
    const struct model *m = &p->single.model;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaStreamCreate(&p->pass.stream));
    open_pass(&p->pass, p->pass.stream, 0);
    DEVICE_ALLOC(p->parameters, "parameters", bytes);
    CUDA_CHECK(cudaMemcpy(p->parameters, parameters, bytes, cudaMemcpyHostToDevice));
    CUDA_CHECK(cudaMallocHost((void **)&p->tokens, p->context * sizeof *p->tokens));
    CUDA_CHECK(cudaMallocHost((void **)&p->logits, p->classes * sizeof *p->logits));
    allocate(&p->whole);
    if (!use_cache)
        return;
    allocate(&p->single);
    const struct zoo_model *z = zoo_model(m);
    for (const struct layer *l = z->inner; l < z->inner + z->count; l++)
        if (l->kind == &cached_attention)
            DEVICE_ALLOC(cache.kept[settings_of(l)->attention.dropout.number], "cache",
                         2 * (size_t)l->outputs * p->context * sizeof(float));
}

// Runs all layers on these tokens. The two models have the same parameters, but only the whole one
// knows where they lie: the other one counts a single position.
static void forward(struct predictor *p, struct run *r, const float *tokens) {
    p->pass.scratch = r->scratch;
    CUDA_CHECK(cudaMemcpyAsync(r->activations[0], tokens,
                               r->model.layers[0].inputs * sizeof *tokens, cudaMemcpyHostToDevice,
                               p->pass.stream));
    for (int i = 0; i < r->model.count; i++)
        layer_forward(&r->model.layers[i], &p->pass, p->parameters + p->whole.model.layers[i].first,
                      r->activations[i], r->activations[i + 1], 1);
}

// Returns the logits after the token at this position of the run's outputs.
static const float *read_logits(struct predictor *p, const struct run *r, int position) {
    CUDA_CHECK(
        cudaMemcpyAsync(p->logits, r->activations[r->model.count] + (size_t)position * p->classes,
                        p->classes * sizeof *p->logits, cudaMemcpyDeviceToHost, p->pass.stream));
    CUDA_CHECK(cudaStreamSynchronize(p->pass.stream));
    return p->logits;
}

// The sequence has as many tokens as in training. Zeros fill the places after the window, and no
// token of the window sees them.
const float *predict_whole(struct predictor *p, const uint8_t *window, int count) {
    for (int i = 0; i < p->context; i++)
        p->tokens[i] = i < count ? window[i] : 0;
    forward(p, &p->whole, p->tokens);
    return read_logits(p, &p->whole, count - 1);
}

// A host array may change only after the device has read it, so each token has its own element.
const float *predict_cached(struct predictor *p, const uint8_t *window, int count) {
    for (; p->cached < count; p->cached++) {
        cache.position = p->cached;
        p->tokens[cache.position] = window[cache.position];
        forward(p, &p->single, &p->tokens[cache.position]);
    }
    return read_logits(p, &p->single, 0);
}

const float *predict_checked(struct predictor *p, const uint8_t *window, int count) {
    size_t bytes = p->classes * sizeof *p->logits;
    float *whole = malloc(bytes);
    if (!whole)
        fail("no memory for %d logits", p->classes);
    memcpy(whole, predict_whole(p, window, count), bytes);
    predict_cached(p, window, count);
    for (int i = 0; i < p->classes; i++)
        if (!(fabsf(whole[i] - p->logits[i]) <= 1e-4f * (1 + fabsf(whole[i]))))
            fail("logit %d after %d tokens is %g, and with the cache %g", i, count, whole[i],
                 p->logits[i]);
    free(whole);
    return p->logits;
}
