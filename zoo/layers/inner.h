// Layers that consist of other layers.
//
// In a pass in bfloat16, products read bfloat16. If each product had to round its inputs, these
// kernels would take as long as the products. So the kernel that makes the inputs of a product
// rounds them: inside of a sublayer, the outputs of all layers, and their gradients, are *values*
// of the type of the pass. A layer there finds them in its arrays x, y, dy and dx, and computes
// with floats. All other arrays are floats: those outside of sublayers, statistics, and gradients
// of parameters. Values are kernels' arguments with a type (zoo/kernels/value_kernels.h).
#pragma once
#include "common/models/model.h"

// Returns the type of the values of a layer, in a pass of this type.
cudaDataType value_type(const struct layer *layer, cudaDataType type);

// Returns how many floats the outputs of a sample take. Bfloat16 take half of them.
size_t output_floats(const struct layer *layer, cudaDataType type);

// Returns the workspace after the outputs y.
float *workspace_of(const struct layer *layer, cudaDataType type, float *y, int b);

// Makes the workspaces of all layers as small as passes of this type allow. Without this call, they
// have room for floats.
void store_values(struct model *model, cudaDataType type);

// Returns the layer before i in the list of inner layers that begins with first.
const struct layer *layer_before(const struct layer *first, const struct layer *i);

// Returns the last inner layer, or the one before it if that is a bias.
const struct layer *last_to_write(const struct layer *layer);

// Returns the parameters of an inner layer, from those of the layer around it.
const void *parameters_of_inner(const struct layer *inner, const struct pass *pass,
                                const void *parameters);

// Appends a layer of this kind. All layers up to end_inner are its inner ones. end_inner gives them
// their places: the last one of a block writes the outputs of the block, that of a sublayer writes
// to scratch memory, and all others write to the workspace.
struct layer *begin_inner(struct model *m, const struct layer_kind *kind);
void end_inner(struct model *m);

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
