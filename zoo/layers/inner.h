// Layers that consist of other layers.
//
// In a pass in bfloat16, products read bfloat16. If each product had to round its inputs, these
// kernels would take as long as the products. So the kernel that makes the inputs of a product
// rounds them: inside of a sublayer, the outputs of all layers, and their gradients, are *values*
// of the type of the pass. A layer there finds them in its arrays x, y, dy and dx, and computes
// with floats. All other arrays are floats: those outside of sublayers, statistics, and gradients
// of parameters. Values are kernels' arguments with a type (zoo/kernels/value_kernels.h).
#pragma once
#include "zoo/layers/kinds.h"

// The member more of a model.
enum { MOST_INNER_LAYERS = 15 * MOST_LAYERS };
struct zoo_model {
    struct layer inner[MOST_INNER_LAYERS]; // those that other layers consist of
    int count;                             // of inner
    struct layer *open; // the layer to which inner layers are being appended, or NULL
    int too_large;      // 1: a layer has more values than an int can count
};

static inline struct zoo_model *zoo_model(const struct model *m) {
    return m->more;
}

// Returns the number of the layer that has been appended last, with inner layers.
static inline int layer_number(const struct model *m) {
    return m->count + zoo_model(m)->count - 1;
}

enum { MOST_VALUES = 1 << 30 }; // of a sample in a layer, in its outputs or its workspace

// Returns the type of the values of a layer, in a pass of this type.
cudaDataType value_type(const struct layer *layer, cudaDataType type);

// Returns how many floats the outputs of a sample take. Bfloat16 take half of them.
size_t output_floats(const struct layer *layer, cudaDataType type);

// Returns the workspace after the outputs y.
float *workspace_of(const struct layer *layer, cudaDataType type, float *y, int b);

// Makes the workspaces of all layers as small as passes of this type allow. Without this call, they
// have room for floats.
void store_values(struct model *model, cudaDataType type);

// Return the layer after i in its list of inner layers, and the one before it in the list that
// begins with first. The inner layers of i are not in this list.
const struct layer *layer_after(const struct layer *i);
const struct layer *layer_before(const struct layer *first, const struct layer *i);

// Returns the last inner layer that is no bias.
const struct layer *last_to_write(const struct layer *layer);

// Returns the parameters of an inner layer, from those of the layer around it.
const void *parameters_of_inner(const struct layer *inner, const struct pass *pass,
                                const void *parameters);

// Appends a layer of this kind. All layers of the zoo up to end_inner are its inner ones. end_inner
// gives them their offsets: the last one of a block writes the outputs of the block, that of a
// sublayer writes to scratch memory, and all others write to the workspace.
struct layer *begin_inner(struct model *m, const struct layer_kind *kind);
void end_inner(struct model *m);

// Returns the scratch memory after this many bytes. An empty batch may have none: NULL and 0.
static inline float *scratch_after(const struct pass *pass, size_t bytes) {
    return (float *)((uintptr_t)pass->scratch + bytes);
}

// Returns where backward stores the gradient of an inner layer's outputs: in scratch memory, or in
// dy of the layer around it, if that has the same outputs.
float *gradient_of(const struct layer *inner, const struct pass *pass, float *dy, int b);

// Run the inner layers from first to end. x: the inputs of the first one. y, dy: the arrays of the
// layer around them. dy_of_last: the gradient of the last one's outputs. forward returns the
// outputs of the last one, or x if there is none.
const float *inner_forward(const struct layer *first, const struct layer *end,
                           const struct pass *pass, const void *parameters, const float *x,
                           float *y, int b);
void inner_backward(const struct layer *first, const struct layer *end, const struct pass *pass,
                    const void *parameters, const float *x, float *y, float *dy, float *dy_of_last,
                    float *dx, float *gradients, int b);

// initialise and scratch of a layer that consists of others.
void inner_initialise(const struct layer *layer, float *parameters, size_t first_value,
                      size_t count, uint64_t seed, cudaStream_t stream);
size_t inner_scratch(const struct layer *layer, cudaDataType type, int b);
