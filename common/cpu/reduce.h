// The arithmetic of NCCL's reductions, on arrays that the calling thread can read and write.
#pragma once
#include <nccl.h>
#include <stddef.h>

// Bytes of an element, 0 for a type that is not supported.
size_t cpu_type_size(ncclDataType_t type);

// out[i] = in[0][i] op in[1][i] op ... op in[n - 1][i] for i < count, always in that order, n >= 1.
// out may be one of the inputs (exactly the same address). 16-bit floats are added in 32 bits and
// rounded once at the end; avg is the sum divided by n (integers: truncated as C divides, the sum
// wrapping around as two's complement does). max and min of floats: a NaN in any input gives NaN.
void cpu_reduce(ncclDataType_t type, ncclRedOp_t op, void *out, const void *const *in, int n,
                size_t count);

// out[i] = in[i] * *scalar, all of the type; out and in do not overlap.
void cpu_scale(ncclDataType_t type, void *out, const void *in, const void *scalar, size_t count);
