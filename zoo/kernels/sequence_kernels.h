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

// y = x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))), the approximation of GELU that GPT-2
// uses (Hendrycks and Gimpel, "Gaussian error linear units", 2016), as in torch.nn.GELU("tanh").
void gelu(const float *x, float *y, size_t count, cudaStream_t stream);
void gelu_backward(const float *x, const float *dy, float *dx, size_t count, cudaStream_t stream);

// Attention heads: each takes width neighbouring values of a token. Head number i of a batch is
// head i % heads of sample i / heads.
struct heads {
    int tokens, heads, width;
};

// Copies the values of count heads, from number first on, to matrices of their own. x has parts
// (such as 3: queries, keys and values) side by side in each token:
//   y[part, i, t, d] = x[sample, t, part, head, d], where first + i is this head of this sample
void split_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream);

// The way back: y[sample, t, part, head, d] = x[part, i, t, d]. Other values of y stay.
void merge_heads(const float *x, float *y, int parts, size_t first, int count, struct heads h,
                 cudaStream_t stream);

// Each matrix has a row for each of the last queries tokens, and a column for each of all tokens.
// The row of token t becomes softmax(scale * its first t + 1 elements), and its other elements 0: a
// token attends only to itself and to those before it. Backward is for square matrices. It
// overwrites dp, the gradient of the result p, with that of the matrices.
void causal_softmax(float *matrices, size_t count, int queries, int tokens, float scale,
                    cudaStream_t stream);
void causal_softmax_backward(const float *p, float *dp, size_t count, int tokens, float scale,
                             cudaStream_t stream);
