// What whole and divided dense layers share.
#pragma once
#include "common/models/model.h"

// Appends a layer with a product of so many rows for each sample. The outputs of a sample have
// rows_out rows.
struct layer *append_product(struct model *m, const struct layer_kind *kind, int rows, int rows_out,
                             int inputs, int outputs);

// Appends this part's share of a layer that belongs to a pair (begin_pair). kind, rows, inputs and
// outputs are those of the whole layer; with own_tokens, rows is the number of own tokens.
struct layer *append_divided(struct model *m, const struct layer_kind *kind, int rows, int inputs,
                             int outputs);
