// The table of a model's layers that --summary prints.
#pragma once
#include "common/models/model.h"

// Prints a row for each layer: the shape of its outputs, its parameters, the FLOPs of the matrix
// products of forward, and the bytes of its activations, which are its outputs and its workspace.
// FLOPs and bytes are those of one sample. The rows of the layers in a residual block are indented,
// and their numbers are part of those of the block. The last row has the sums.
void print_summary(const struct model *model);
