// Sequence parallelism (Korthikanti et al., "Reducing activation recomputation in large transformer
// models", 2022): with own_tokens, each part holds only its share of all tokens of the batch
// outside of the pairs.
#pragma once
#include "09_tensor/divided.h"

extern struct parts *parts; // of the model of this process

// The layers of a pair call the next three functions. Without own_tokens, each part has all tokens.
// With own_tokens, scratch holds those of all parts: the inputs of the first layer or their
// gradients, and the outputs of the second one or theirs.

// Returns the values of all tokens. This part has count values of its own.
const float *all_tokens(const struct pass *pass, const float *own, size_t count);

// Returns where a product writes this part's shares of sums.
float *shares_of(const struct pass *pass, float *sums);

// Adds up the shares of all parts. This part gets count sums.
void sum_shares(const struct pass *pass, float *sums, size_t count);

// An embedding of all tokens that keeps this part's, and dropout of this part's tokens.
extern const struct layer_kind embedding_of_own, dropout_of_own;
