// The arithmetic of NCCL's reductions, for arrays that the calling thread can read and write.
#pragma once
#include <nccl.h>
#include <stddef.h>

// Returns the bytes of an element, or 0 for an unsupported type.
size_t cpu_type_size(ncclDataType_t type);

// out[i] = in[0][i] op in[1][i] op ... op in[n - 1][i] for i < count, always in this order, n >= 1.
// out may have the same address as one of the inputs.
// - bfloat16 numbers are added in 32 bits and rounded once at the end.
// - avg is the sum divided by n. For integers, the sum wraps around, and the division truncates.
// - max and min of floats: a NaN in any input gives NaN.
void cpu_reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const void *const *in, int n,
                size_t count);
