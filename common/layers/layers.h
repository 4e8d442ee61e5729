// The kinds of layers of the MLP; zoo/layers/kinds.h has the others. Each append_ function adds a
// layer to the end of the model; its inputs are the outputs of the layer before it, or the samples.
#pragma once
#include "common/models/model.h"

// y = x W^T + bias. The parameters are W [outputs, inputs] and then bias [outputs]. dense_relu also
// sets y = max(y, 0). Initial values are those of torch.nn.Linear: uniform in +-1/sqrt(inputs).
extern const struct layer_kind dense, dense_relu;
void append_dense(struct model *m, const struct layer_kind *kind, int outputs);
