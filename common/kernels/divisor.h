// How kernels divide the indices of their elements. A GPU has no instruction for integer division:
// it takes about 20 instructions, and 30 for 64 bits. With a factor and a shift that the host
// computes, it takes three (Granlund and Montgomery, "Division by invariant integers using
// multiplication", 1994).
#pragma once
#include "common/base/error.h"
#include "common/base/rng.h"
#include <stddef.h>

struct divisor {
    unsigned n, factor, shift;
};

static inline struct divisor divisor(size_t n) {
    unsigned shift = 0;
    while ((size_t)1 << shift < n)
        shift++;
    uint64_t rest = ((uint64_t)1 << shift) - n; // 2^shift is n + rest
    struct divisor d = {(unsigned)n, (unsigned)((rest << 32) / n + 1), shift};
    return d;
}

// Returns count, the number of elements of a kernel that divides their indices.
static inline size_t counted(size_t count) {
    if (count >> 31)
        fail("a kernel for %zu numbers: it counts below 2^31; use a smaller batch", count);
    return count;
}

// Divides *i, which is below 2^31, by n. Returns the remainder, and leaves the quotient in *i.
HOST_DEVICE_FUNCTION unsigned split(unsigned *i, struct divisor n) {
    unsigned quotient = ((unsigned)((uint64_t)*i * n.factor >> 32) + *i) >> n.shift;
    unsigned remainder = *i - quotient * n.n;
    *i = quotient;
    return remainder;
}
