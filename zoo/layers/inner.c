#include "zoo/layers/inner.h"
#include "common/base/minmax.h"
#include "common/layers/products.h"

const struct layer *layer_before(const struct layer *first, const struct layer *i) {
    while (layer_behind(first) != i)
        first = layer_behind(first);
    return first;
}

static const void *parameters_of(const struct layer *i, const struct pass *pass,
                                 const void *parameters) {
    return parameter_at(pass, parameters, i->first - i->around->first);
}

const float *inner_forward(const struct layer *first, const struct layer *end,
                           const struct pass *pass, const void *parameters, const float *x,
                           float *y, int b) {
    for (const struct layer *i = first; i < end; i = layer_behind(i)) {
        float *outputs = y + b * i->place;
        i->kind->forward(i, pass, parameters_of(i, pass, parameters), x, outputs, b);
        x = outputs;
    }
    return x;
}

// Each gradient may overwrite parameters of later layers, so the last layers come first.
void inner_backward(const struct layer *first, const struct layer *end, const struct pass *pass,
                    const void *parameters, const float *x, float *y, float *dy, float *dx,
                    float *gradients, int b) {
    while (end > first) {
        const struct layer *i = layer_before(first, end);
        const struct layer *before = i > first ? layer_before(first, i) : NULL;
        i->kind->backward(i, pass, parameters_of(i, pass, parameters),
                          before ? y + b * before->place : x, y + b * i->place, dy + b * i->place,
                          before ? dy + b * before->place : dx,
                          gradients + (i->first - i->around->first), b);
        end = i;
    }
}

void inner_initialise(const struct layer *l, float *parameters, size_t first_value, size_t count,
                      uint64_t seed, cudaStream_t stream) {
    for (const struct layer *i = l->inner; i < l->inner_end; i = layer_behind(i)) {
        size_t begin = i->first - l->first, end = begin + i->parameters;
        size_t from = max_size(begin, first_value), to = min_size(end, first_value + count);
        if (from < to)
            i->kind->initialise(i, parameters + (from - first_value), from - begin, to - from, seed,
                                stream);
    }
}

size_t inner_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t most = 0;
    for (const struct layer *i = l->inner; i < l->inner_end; i = layer_behind(i))
        if (i->kind->scratch)
            most = max_size(most, i->kind->scratch(i, type, b));
    return most;
}

struct layer *begin_inner(struct model *m, const struct layer_kind *kind) {
    struct layer *l = model_append(m, kind, m->out, 0, 0);
    l->inner = l->inner_end = m->inner + m->inner_count;
    m->open = l;
    return l;
}

void end_inner(struct model *m, struct layer *last) {
    struct layer *l = m->open;
    l->out = m->out;
    l->outputs = shape_size(l->out);
    l->inner_end = m->inner + m->inner_count;
    l->parameters = m->parameters - l->first;
    size_t place = l->outputs + (last ? last->workspace : 0);
    for (struct layer *i = l->inner; i < l->inner_end; i = (struct layer *)layer_behind(i)) {
        l->flops += i->flops;
        i->place = i == last ? 0 : place;
        place += i == last ? 0 : (size_t)i->outputs + i->workspace;
    }
    m->too_large |= place - l->outputs > MOST_VALUES;
    l->workspace = (int)(place - l->outputs);
    m->open = l->around;
}
