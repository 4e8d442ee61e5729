// What whole and divided dense layers share.
#pragma once
#include "common/models/model.h"

void dense_initialise(const struct layer *l, float *parameters, size_t first_value, size_t count,
                      uint64_t seed, cudaStream_t stream);
void dense_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                   const float *x, float *y, int b);
void dense_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                    const float *x, float *y, float *dy, float *dx, float *gradients, int b);
size_t dense_scratch(const struct layer *l, cudaDataType type, int b);

// Return x, dy and the bias as a pass reads them: the arrays themselves or, if the pass computes in
// bfloat16, copies in scratch of the other type.
const void *read_x(const struct layer *l, const struct pass *pass, const float *x, int b);
const void *read_dy(const struct layer *l, const struct pass *pass, const float *dy, int b);
const float *read_bias(const struct layer *l, const struct pass *pass, const void *parameters);

// dbias = the sum of dy over the samples and, if each has several rows, over these.
void sum_bias(const struct layer *l, const struct pass *pass, const float *dy, float *dbias, int b);

// Appends a layer with a product of so many rows for each sample. The outputs of a sample have
// rows_out rows.
struct layer *append_product(struct model *m, const struct layer_kind *kind, int rows, int rows_out,
                             int inputs, int outputs);

// Appends this part's share of a layer that belongs to a pair (begin_pair). kind, rows, inputs and
// outputs are those of the whole layer; with own_tokens, rows is the number of own tokens.
struct layer *append_divided(struct model *m, const struct layer_kind *kind, int rows, int inputs,
                             int outputs);
