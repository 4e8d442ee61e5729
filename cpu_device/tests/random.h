// Random numbers: number i depends only on the seed and i (SplitMix64).
#pragma once
#include <stdint.h>

static inline uint64_t random_bits(uint64_t seed, uint64_t i) {
    uint64_t z = seed + (i + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// In [0, 1).
static inline float random_uniform(uint64_t seed, uint64_t i) {
    return (float)(random_bits(seed, i) >> 40) * 0x1p-24f;
}
