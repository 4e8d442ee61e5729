// Layers that consist of other layers.
#pragma once
#include "common/models/model.h"

// Returns the layer before i in the list of inner layers that begins with first.
const struct layer *layer_before(const struct layer *first, const struct layer *i);

// Appends a layer of this kind. All layers up to end_inner are its inner ones.
struct layer *begin_inner(struct model *m, const struct layer_kind *kind);

// Ends it: gives the inner layers their places in its workspace, but those of last, which may be
// NULL, at its own outputs.
void end_inner(struct model *m, struct layer *last);

// Run the inner layers from first to end. x: the inputs of the first one. y, dy: the arrays of the
// layer around them, with the gradient of the last one's outputs in dy. forward returns the outputs
// of the last one, or x if there is none.
const float *inner_forward(const struct layer *first, const struct layer *end,
                           const struct pass *pass, const void *parameters, const float *x,
                           float *y, int b);
void inner_backward(const struct layer *first, const struct layer *end, const struct pass *pass,
                    const void *parameters, const float *x, float *y, float *dy, float *dx,
                    float *gradients, int b);

// initialise and scratch of a layer that consists of others.
void inner_initialise(const struct layer *layer, float *parameters, size_t first_value,
                      size_t count, uint64_t seed, cudaStream_t stream);
size_t inner_scratch(const struct layer *layer, cudaDataType type, int b);
