// The kernels of attention, as common/kernels/kernels.h describes them. They compute the scores in
// blocks of queries and keys, and store none of them (Dao, "FlashAttention-2: faster attention with
// better parallelism and work partitioning", 2023).
//
// Both devices add a block of keys and their values to a block of queries in one function,
// add_keys. It keeps three things of each query:
//   largest: the largest score so far
//   sum:     of e^(score - largest) over the keys so far
//   outputs: the sum of e^(score - largest) * value
// If a later block has a larger score, it multiplies the sum and the outputs by e^(old - new
// largest). The softmax is complete when the outputs have been divided by the sum. So the keys may
// come in any number of blocks, such as those of other ranks.
#pragma once
#include "zoo/kernels/element_kernels.h"
#include <cublas_v2.h> // cudaDataType

enum { MOST_HEAD_WIDTH = 128 };

// Queries, and the keys and values that they read. A head takes width neighbouring values of a
// token, and the heads of a token lie side by side.
struct attention_inputs {
    cudaDataType type; // of all values: CUDA_R_32F, or CUDA_R_16BF, with sums in float
    int tf32;          // 1: a GPU may round floats to TF32 before it multiplies them
    int samples, heads, width;
    int queries, keys;         // tokens of a sample
    int before;                // keys in front of that of the first query
    const void *q, *k, *v;     // of the first head in the first token
    size_t q_pitch, key_pitch; // values from a token to the next one, in q, and in k and v
    // Dropout of the shares [samples, heads, queries, keys], as drop_values does it.
    float rate;
    uint64_t seed;
    struct numbers numbers;
};

// Query number i sees the keys up to number before + i (a causal mask), at least one. For each
// head:
//   y = sum of p * v, where p = softmax of (q . k / sqrt(width)) over the keys that q sees
// y is [samples, queries, heads, width]. logs [samples, heads, queries]: the logarithm of the sum
// of e^score, for backward. With two results for different keys, the result for all of them is
// their mean with the weights e^logs.
void attend(const struct attention_inputs *a, void *y, float *logs, cudaStream_t stream);

// Computes the gradients of q, k and v from dy, that of y. They lie as q, k and v do. sums
// [samples, heads, queries, 2] is scratch.
void attend_backward(const struct attention_inputs *a, const void *y, const void *dy,
                     const float *logs, float *sums, void *dq, void *dk, void *dv,
                     cudaStream_t stream);
