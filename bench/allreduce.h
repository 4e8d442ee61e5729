// What the all-reduce benchmarks share: sizes, timing and checking. Each prints "BYTES
// MICROSECONDS" per size, for a table that collectives.py makes of them.
#pragma once
#include <stddef.h>

struct all_reduce {
    float *(*new_buffer)(size_t count);
    void (*copy)(void *to, const void *from, size_t bytes); // into, out of and within buffers
    void (*sum)(float *buffer, size_t count,
                int times); // in place; returns when all have been done
};

// Checks the sums of each size, then times them; rank 0 prints. Ends the process if a sum is wrong.
void measure(const struct all_reduce *a, int rank, int ranks);
