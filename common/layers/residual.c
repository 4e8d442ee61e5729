// The outputs of the inner layers are in the workspace of the block: those of each layer, with its
// workspace, behind those of the one before. Backward stores the gradients of these outputs at the
// same places behind dy.
#include "common/base/minmax.h"
#include "common/device/device.h"
#include "common/layers/layers.h"
#include "common/layers/products.h"

static void residual_initialise(const struct layer *l, float *parameters, size_t first_value,
                                size_t count, uint64_t seed, cudaStream_t stream) {
    for (const struct layer *i = l->residual.body; i < l->residual.end; i++) {
        size_t begin = i->first - l->first, end = begin + i->parameters;
        size_t from = max_size(begin, first_value), to = min_size(end, first_value + count);
        if (from < to)
            i->kind->initialise(i, parameters + (from - first_value), from - begin, to - from, seed,
                                stream);
    }
}

// Returns where the outputs of inner layer i begin, in floats per sample behind those of the block.
static size_t offset_of(const struct layer *l, const struct layer *i) {
    size_t offset = 0;
    for (const struct layer *before = l->residual.body; before < i; before++)
        offset += before->outputs + before->workspace;
    return offset;
}

// Returns the outputs of inner layer i, or their gradients if array is dy.
static float *outputs_of(const struct layer *l, const struct layer *i, float *array, int b) {
    return array + b * (l->outputs + offset_of(l, i));
}

static const void *parameters_of(const struct layer *l, const struct layer *i,
                                 const struct pass *pass, const void *parameters) {
    return parameter_at(pass, parameters, i->first - l->first);
}

// Runs the layers from to end. Returns the outputs of the last one, or x if there is none.
static const float *run_list(const struct layer *l, const struct layer *from,
                             const struct layer *end, const struct pass *pass,
                             const void *parameters, const float *x, float *y, int b) {
    for (const struct layer *i = from; i < end; i++) {
        i->kind->forward(i, pass, parameters_of(l, i, pass, parameters), x, outputs_of(l, i, y, b),
                         b);
        x = outputs_of(l, i, y, b);
    }
    return x;
}

static void residual_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                             const float *x, float *y, int b) {
    const struct layer *shortcut = l->residual.shortcut;
    const float *sum = run_list(l, l->residual.body, shortcut, pass, parameters, x, y, b);
    const float *other = run_list(l, shortcut, l->residual.end, pass, parameters, x, y, b);
    size_t count = (size_t)b * l->outputs;
    if (l->residual.relu) {
        add_relu(sum, other, y, count, pass->stream);
        return;
    }
    CUDA_CHECK(cudaMemcpyAsync(y, sum, count * sizeof *y, cudaMemcpyDeviceToDevice, pass->stream));
    add_to(y, other, count, pass->stream);
}

// Computes the gradients of the layers from to end, and dx of the first one, from dy of the block.
static void run_list_backward(const struct layer *l, const struct layer *from,
                              const struct layer *end, const struct pass *pass,
                              const void *parameters, const float *x, float *y, float *dy,
                              float *dx, float *gradients, int b) {
    CUDA_CHECK(cudaMemcpyAsync(outputs_of(l, end - 1, dy, b), dy,
                               (size_t)b * l->outputs * sizeof *dy, cudaMemcpyDeviceToDevice,
                               pass->stream));
    for (const struct layer *i = end - 1; i >= from; i--)
        i->kind->backward(i, pass, parameters_of(l, i, pass, parameters),
                          i > from ? outputs_of(l, i - 1, y, b) : x, outputs_of(l, i, y, b),
                          outputs_of(l, i, dy, b), i > from ? outputs_of(l, i - 1, dy, b) : dx,
                          gradients + (i->first - l->first), b);
}

// Each gradient may overwrite parameters of later layers, so the last layers come first.
static void residual_backward(const struct layer *l, const struct pass *pass,
                              const void *parameters, const float *x, float *y, float *dy,
                              float *dx, float *gradients, int b) {
    const struct layer *shortcut = l->residual.shortcut, *end = l->residual.end;
    size_t inputs = (size_t)b * l->inputs;
    float *dx_of_shortcut = dx ? dx + inputs : NULL;
    if (l->residual.relu)
        relu_backward(dy, y, (size_t)b * l->outputs, pass->stream);
    if (shortcut < end)
        run_list_backward(l, shortcut, end, pass, parameters, x, y, dy, dx_of_shortcut, gradients,
                          b);
    run_list_backward(l, l->residual.body, shortcut, pass, parameters, x, y, dy, dx, gradients, b);
    if (dx)
        add_to(dx, shortcut < end ? dx_of_shortcut : dy, inputs, pass->stream);
}

static size_t residual_scratch(const struct layer *l, cudaDataType type, int b) {
    size_t most = 0;
    for (const struct layer *i = l->residual.body; i < l->residual.end; i++)
        if (i->kind->scratch)
            most = max_size(most, i->kind->scratch(i, type, b));
    return most;
}

const struct layer_kind residual = {"residual", residual_initialise, residual_forward,
                                    residual_backward, residual_scratch};

void begin_residual(struct model *m, int relu) {
    struct layer *l = model_append(m, &residual, m->out, 0, 0);
    l->residual.body = l->residual.shortcut = l->residual.end = m->inner + m->inner_count;
    l->residual.relu = relu;
    m->open = l;
}

void begin_shortcut(struct model *m) {
    m->open->residual.shortcut = m->inner + m->inner_count;
    m->open->out = m->out;
    m->out = m->open->in;
}

void end_residual(struct model *m) {
    struct layer *l = m->open;
    l->residual.end = m->inner + m->inner_count;
    m->open = NULL;
    m->out = l->out;
    l->outputs = shape_size(l->out);
    l->parameters = m->parameters - l->first;
    m->too_large |= offset_of(l, l->residual.end) > MOST_VALUES;
    l->workspace = offset_of(l, l->residual.end);
    for (const struct layer *i = l->residual.body; i < l->residual.end; i++)
        l->flops += i->flops;
    // Backward stores two gradients of the inputs in dx.
    l->workspace = max_size(l->workspace, 2 * l->inputs - min_size(l->outputs, 2 * l->inputs));
}
