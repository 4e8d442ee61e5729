// The kinds of layers, one per file of this folder. A new kind needs a new file, its lines here
// and, if it has settings, a member of struct layer.
#pragma once
#include "common/model.h"

// y = x W^T + bias. The parameters are W [outputs, inputs] and then bias [outputs]. dense_relu also
// sets y = max(y, 0). Initial values are those of torch.nn.Linear: uniform in +-1/sqrt(inputs).
extern const struct layer_kind dense, dense_relu;
void append_dense(struct model *m, const struct layer_kind *kind, int inputs, int outputs);

// In training, each value becomes 0 with probability rate, and x / (1 - rate) otherwise, so the
// expected value stays x, as in torch.nn.Dropout. In evaluation, y = x. The layer has no
// parameters. The choice depends on the seed of the pass, the layer and the sample's index in the
// whole batch. It does not depend on how the batch is split.
extern const struct layer_kind dropout;
void append_dropout(struct model *m, int width, float rate);
