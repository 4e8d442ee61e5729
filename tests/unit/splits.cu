// A test of split for test_kernels.c, because only C++ can call it.
#include "common/kernels/gpu_launch.h"

// Returns 1 if split is right for this number and divisor.
extern "C" int cu_splits(unsigned i, unsigned n) {
    unsigned quotient = i, remainder = split(quotient, divisor(n));
    return quotient == i / n && remainder == i % n;
}
