// The arrays of cpu_device/tests/arrays.h, with values that the tests of the course need.
#pragma once
#include "common/base/rng.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "cpu_device/tests/arrays.h"

static inline uint8_t *random_bytes(size_t count, int below, uint64_t seed) {
    uint8_t *values = new_array(count);
    for (size_t i = 0; i < count; i++)
        values[i] = (uint8_t)(rng_bits(seed, i) % (uint64_t)below);
    return values;
}

// STATS_LANES of them.
static inline struct stats *random_stats(void) {
    struct stats *lanes = new_array(STATS_LANES * sizeof *lanes);
    for (size_t i = 0; i < STATS_LANES; i++)
        lanes[i] = (struct stats){rng_uniform(7, i), (double)(rng_bits(8, i) % 9), (double)(i % 9)};
    return lanes;
}
