#include "zoo/layers/inner.h"
#include "common/base/minmax.h"
#include "common/layers/products.h"
#include "zoo/layers/kinds.h"

const struct layer *layer_before(const struct layer *first, const struct layer *i) {
    while (layer_after(first) != i)
        first = layer_after(first);
    return first;
}

const struct layer *last_to_write(const struct layer *l) {
    const struct layer *last = layer_before(l->inner, l->inner_end);
    return last->kind == &bias ? layer_before(l->inner, last) : last;
}

const void *parameters_of_inner(const struct layer *i, const struct pass *pass,
                                const void *parameters) {
    return parameter_at(pass, parameters, i->first - i->around->first);
}

const float *inner_forward(const struct layer *first, const struct layer *end,
                           const struct pass *pass, const void *parameters, const float *x,
                           float *y, int b) {
    for (const struct layer *i = first; i < end; i = layer_after(i)) {
        float *outputs = y + b * i->place;
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
        float *dx_of_i = before ? dy + b * before->place : dx;
        i->kind->backward(i, pass, parameters_of_inner(i, pass, parameters),
                          before ? y + b * before->place : x, y + b * i->place, dy_of_last, dx_of_i,
                          gradients + (i->first - i->around->first), b);
        dy_of_last = dx_of_i;
        end = i;
    }
}

void inner_initialise(const struct layer *l, float *parameters, size_t first_value, size_t count,
                      uint64_t seed, cudaStream_t stream) {
    for (const struct layer *i = l->inner; i < l->inner_end; i = layer_after(i)) {
        size_t begin = i->first - l->first, end = begin + i->parameters;
        size_t from = max_size(begin, first_value), to = min_size(end, first_value + count);
        if (from < to)
            i->kind->initialise(i, parameters + (from - first_value), from - begin, to - from, seed,
                                stream);
    }
}

size_t inner_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t most = 0;
    for (const struct layer *i = l->inner; i < l->inner_end; i = layer_after(i))
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

// Gives the inner layers their places. A bias works where the layer before it writes. The last
// layer of a block writes to the outputs of the block, and that of a sublayer to scratch memory.
// All others write to the workspace.
static void lay_out(struct layer *l, cudaDataType type) {
    const struct layer *last = l->kind == &residual ? NULL : last_to_write(l);
    size_t place = l->outputs + (last ? last->workspace : 0), before = 0;
    for (struct layer *i = l->inner; i < l->inner_end; i = (struct layer *)layer_after(i)) {
        i->place = i == last ? 0 : i->kind == &bias ? before : place;
        before = i->place;
        if (i != last && i->kind != &bias)
            place += output_floats(i, type) + i->workspace;
    }
    l->workspace = (int)min_size(place - l->outputs, MOST_VALUES + 1);
}

void end_inner(struct model *m) {
    struct layer *l = m->open;
    l->out = m->out;
    l->outputs = shape_size(l->out);
    l->inner_end = m->inner + m->inner_count;
    l->parameters = m->parameters - l->first;
    for (struct layer *i = l->inner; i < l->inner_end; i = (struct layer *)layer_after(i))
        l->flops += i->flops;
    lay_out(l, CUDA_R_32F);
    m->too_large |= l->workspace > MOST_VALUES;
    m->open = l->around;
}

cudaDataType value_type(const struct layer *l, cudaDataType type) {
    return l->around && l->around->kind == &sublayer ? type : CUDA_R_32F;
}

size_t output_floats(const struct layer *l, cudaDataType type) {
    enum { ALIGNED = 4 }; // kernels may load 16 bytes at a time
    size_t halves = ((size_t)l->outputs + 2 * ALIGNED - 1) / (2 * ALIGNED) * ALIGNED;
    return value_type(l, type) == CUDA_R_16BF ? halves : (size_t)l->outputs;
}

float *workspace_of(const struct layer *l, cudaDataType type, float *y, int b) {
    return y + b * output_floats(l, type);
}

void store_values(struct model *m, cudaDataType type) {
    for (struct layer *l = m->inner; l < m->inner + m->inner_count; l++)
        if (l->kind == &sublayer)
            lay_out(l, type);
    for (struct layer *l = m->layers; l < m->layers + m->count; l++)
        if (l->kind == &block || l->kind == &sublayer)
            lay_out(l, type);
}
