// The layers of the MLP, and what all layers share: matrix products, and parameters in either type.
// zoo/layers/kinds.h has the other kinds. Each append_ function adds a layer to the end of the
// model; its inputs are the outputs of the layer before it, or the samples.
#pragma once
#include "common/models/model.h"

// y = x W^T + bias. The parameters are W [outputs, inputs] and then bias [outputs]. dense_relu also
// sets y = max(y, 0). Initial values are those of torch.nn.Linear: uniform in +-1/sqrt(inputs).
extern const struct layer_kind dense, dense_relu;
void append_dense(struct model *m, const struct layer_kind *kind, int outputs);

// C [m, n] = op(A) op(B), with op(A) [m, k] and op(B) [k, n]. All matrices are row-major, and sums
// are floats. A are floats. B are parameters or, if A is transposed as for the gradient of
// parameters, floats. A pass in bfloat16 multiplies copies of the floats, which it rounds into
// scratch: matmul_scratch bytes for count floats of A and B together.
void matmul(const struct pass *pass, int transpose_a, int transpose_b, int m, int n, int k,
            const float *a, const void *b, float *c);
size_t matmul_scratch(cudaDataType type, size_t count);

// C = op(A) op(B) + beta C, for A and B of the type of the pass. C are floats (CUDA_R_32F), or have
// that type, too.
void matmul_rounded(const struct pass *pass, int transpose_a, int transpose_b, int m, int n, int k,
                    const void *a, const void *b, float beta, void *c, cudaDataType type);

// Returns x as an input of a product: x itself, or its count elements rounded to bfloat16, which it
// writes to scratch from byte at on.
const void *rounded(const struct pass *pass, const float *x, size_t count, size_t at);

// Returns count parameters from number first on, as floats: the parameters themselves, or a copy at
// the beginning of scratch.
const float *as_floats(const struct pass *pass, const void *parameters, size_t first, size_t count);

// Returns the address of the parameter with this index.
const void *parameter_at(const struct pass *pass, const void *parameters, size_t index);
