// The smaller and the larger of two sizes. (fmin and fmax round sizes above 2^53.)
#pragma once
#include <stddef.h>

static inline size_t min_size(size_t a, size_t b) {
    return a < b ? a : b;
}

static inline size_t max_size(size_t a, size_t b) {
    return a > b ? a : b;
}
