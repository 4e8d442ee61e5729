// Kernels of sequences of tokens, as common/kernels/kernels.h describes them. A token is a whole
// number below entries, stored as a float.
#pragma once
#include "common/kernels/kernels.h"

// y[r, c] = table[tokens[r], c] for r < rows and c < width. table is [entries, width].
void look_up(const float *tokens, const float *table, float *y, int rows, int width, int entries,
             cudaStream_t stream);

// dtable[e, c] = sum of dy[r, c] over all rows r whose token is e, in the order of the rows.
void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream);
