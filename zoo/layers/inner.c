#include "zoo/layers/inner.h"
#include "common/base/minmax.h"
#include <stdlib.h>

void (*append_hook)(struct model *m, struct layer *l);

struct layer *append_layer(struct model *m, const struct layer_kind *kind, struct shape out,
                           int workspace, size_t parameters) {
    struct zoo_model *z = m->more = m->more ? m->more : calloc(1, sizeof *z);
    if (!z)
        fail("out of memory for the layers of a model");
    if ((double)out.height * out.width * out.channels >= MOST_VALUES) {
        z->too_large = 1;
        out = (struct shape){1, 1, 1};
    }
    if (!z->open)
        return model_append(m, kind, out, workspace, parameters);
    if (z->count == MOST_INNER_LAYERS)
        fail("the model has too many layers: raise MOST_INNER_LAYERS in zoo/layers/inner.h");
    struct layer *l = &z->inner[z->count++];
    model_add(m, l, kind, out, workspace, parameters);
    zoo_layer(l)->around = z->open;
    return l;
}

void layer_appended(struct model *m, struct layer *l) {
    if (append_hook)
        append_hook(m, l);
}

const struct layer *layer_after(const struct layer *i) {
    return zoo_layer(i)->inner ? zoo_layer(i)->inner_end : i + 1;
}

const struct layer *layer_before(const struct layer *first, const struct layer *i) {
    while (layer_after(first) != i)
        first = layer_after(first);
    return first;
}

const struct layer *last_to_write(const struct layer *l) {
    const struct layer *last = NULL;
    for (const struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = layer_after(i))
        if (i->kind != &bias)
            last = i;
    return last;
}

const void *parameters_of_inner(const struct layer *i, const struct pass *pass,
                                const void *parameters) {
    return parameter_at(pass, parameters, i->first - zoo_layer(i)->around->first);
}

const float *inner_forward(const struct layer *first, const struct layer *end,
                           const struct pass *pass, const void *parameters, const float *x,
                           float *y, int b) {
    for (const struct layer *i = first; i < end; i = layer_after(i)) {
        float *outputs = y + b * zoo_layer(i)->offset;
        i->kind->forward(i, pass, parameters_of_inner(i, pass, parameters), x, outputs, b);
        x = outputs;
    }
    return x;
}

// Each gradient may overwrite parameters of later layers, so the last layers come first.
void inner_backward(const struct layer *first, const struct layer *end, const struct pass *pass,
                    const void *parameters, const float *x, float *y, float *dy, float *dy_of_last,
                    float *dx, float *gradients, int b) {
    while (end > first) {
        const struct layer *i = layer_before(first, end);
        const struct layer *before = i > first ? layer_before(first, i) : NULL;
        float *dx_of_i = before ? gradient_of(before, pass, dy, b) : dx;
        i->kind->backward(i, pass, parameters_of_inner(i, pass, parameters),
                          before ? y + b * zoo_layer(before)->offset : x,
                          y + b * zoo_layer(i)->offset, dy_of_last, dx_of_i,
                          gradients + (i->first - zoo_layer(i)->around->first), b);
        dy_of_last = dx_of_i;
        end = i;
    }
}

void inner_initialise(const struct layer *l, float *parameters, size_t first_value, size_t count,
                      uint64_t seed, cudaStream_t stream) {
    for (const struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = layer_after(i)) {
        size_t begin = i->first - l->first, end = begin + i->parameters;
        size_t from = max_size(begin, first_value), to = min_size(end, first_value + count);
        if (from < to)
            i->kind->initialise(i, parameters + (from - first_value), from - begin, to - from, seed,
                                stream);
    }
}

// Returns where the gradients of the inner layers begin in scratch memory: after that of these
// layers.
static size_t gradients_at(const struct layer *l, cudaDataType type, int b) {
    enum { ALIGNED = 16 }; // bytes that kernels may load at a time
    size_t most = 0;
    for (const struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = layer_after(i))
        if (i->kind->scratch)
            most = max_size(most, i->kind->scratch(i, type, b));
    return (most + ALIGNED - 1) / ALIGNED * ALIGNED;
}

// The gradients are as far from each other as the outputs.
float *gradient_of(const struct layer *i, const struct pass *pass, float *dy, int b) {
    const struct layer *l = zoo_layer(i)->around;
    size_t offset = zoo_layer(i)->offset, first = zoo_layer(zoo_layer(l)->inner)->offset;
    size_t before = gradients_at(l, pass->type, b) + b * (offset - first) * sizeof(float);
    return offset ? scratch_after(pass, before) : dy;
}

size_t inner_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t first = zoo_layer(zoo_layer(l)->inner)->offset, end = first;
    for (const struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = layer_after(i))
        if (zoo_layer(i)->offset)
            end = max_size(end, zoo_layer(i)->offset + output_floats(i, type));
    return gradients_at(l, type, b) + b * (end - first) * sizeof(float);
}

struct layer *begin_inner(struct model *m, const struct layer_kind *kind) {
    struct layer *l = append_layer(m, kind, m->out, 0, 0);
    struct zoo_model *z = zoo_model(m);
    zoo_layer(l)->inner = zoo_layer(l)->inner_end = z->inner + z->count;
    z->open = l;
    return l;
}

// Gives the inner layers their offsets: one after the other in the workspace, and for the last one
// of a block or a sublayer, the outputs. A bias works where the layer before it writes.
static void lay_out(struct layer *l, cudaDataType type) {
    const struct layer *last = l->kind == &residual ? NULL : last_to_write(l);
    size_t end = l->outputs + (last ? last->workspace : 0), offset = 0;
    for (struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = (struct layer *)layer_after(i)) {
        if (i == last) {
            offset = 0;
        } else if (i->kind != &bias) {
            offset = end;
            end += output_floats(i, type) + i->workspace;
        }
        zoo_layer(i)->offset = offset;
    }
    l->workspace = (int)min_size(end - l->outputs, MOST_VALUES + 1);
}

void end_inner(struct model *m) {
    struct zoo_model *z = zoo_model(m);
    struct layer *l = z->open;
    l->out = m->out;
    l->outputs = shape_size(l->out);
    l->parameters = m->parameters - l->first;
    zoo_layer(l)->inner_end = z->inner + z->count;
    for (const struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = layer_after(i))
        l->flops += i->flops;
    lay_out(l, CUDA_R_32F);
    z->too_large |= l->workspace > MOST_VALUES;
    z->open = zoo_layer(l)->around;
}

cudaDataType value_type(const struct layer *l, cudaDataType type) {
    const struct layer *around = zoo_layer(l)->around;
    return around && around->kind == &sublayer ? type : CUDA_R_32F;
}

size_t output_floats(const struct layer *l, cudaDataType type) {
    enum { ALIGNED = 4 }; // kernels may load 16 bytes at a time
    size_t halves = ((size_t)l->outputs + 2 * ALIGNED - 1) / (2 * ALIGNED) * ALIGNED;
    return value_type(l, type) == CUDA_R_16BF ? halves : (size_t)l->outputs;
}

float *workspace_of(const struct layer *l, cudaDataType type, float *y, int b) {
    return y + b * output_floats(l, type);
}

static void store_values_of(struct layer *l, cudaDataType type) {
    for (struct layer *i = zoo_layer(l)->inner; i < zoo_layer(l)->inner_end;
         i = (struct layer *)layer_after(i))
        store_values_of(i, type);
    if (l->kind == &block || l->kind == &sublayer)
        lay_out(l, type);
}

void store_values(struct model *m, cudaDataType type) {
    for (struct layer *l = m->layers; l < m->layers + m->count; l++)
        store_values_of(l, type);
}
