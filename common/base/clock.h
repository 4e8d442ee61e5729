// A clock for durations.
#pragma once
#include <time.h>

// Returns the seconds since some fixed time in the past. The clock never jumps.
static inline double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}
