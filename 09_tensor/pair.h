// Two layers with products that the parts divide together: the first one by its outputs, the second
// one by its inputs. So a part computes the values between them without the other parts.
#pragma once
#include "09_tensor/divided.h"

// Returns 1 if the layer multiplies its inputs by a matrix that can be divided.
int is_product(const struct layer *layer);

// Returns 1 for a linear layer, 0 for a dense one.
int is_linear(const struct layer *layer);

// Returns the kind that computes a part of a layer with a product.
const struct layer_kind *kind_in_pair(const struct layer *layer, enum divided how);

// The product of a layer: its rows for each sample, and the values of a row.
struct product {
    int rows, inputs, outputs;
};
struct product product_sizes(const struct layer *layer);
