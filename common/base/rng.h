// A counter-based random number generator: number i depends only on the seed and i. Any thread or
// process can compute any number, so the results do not depend on how the work is divided.
#pragma once
#include <stdint.h>

#ifdef __CUDACC__
#define HOST_DEVICE_FUNCTION static __host__ __device__ inline
#else
#define HOST_DEVICE_FUNCTION static inline
#endif

// Returns output number index (from 0) of SplitMix64 (Steele, Lea and Flood, "Fast splittable
// pseudorandom number generators", 2014). With seed 0, the first output is 0xe220a8397b1dcdaf.
HOST_DEVICE_FUNCTION uint64_t rng_bits(uint64_t seed, uint64_t index) {
    uint64_t z = seed + (index + 1) * 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

// Returns a number that is uniform in [0, 1): a multiple of 2^-24, which a float holds exactly.
HOST_DEVICE_FUNCTION float rng_uniform(uint64_t seed, uint64_t index) {
    return (float)(int)(rng_bits(seed, index) >> 40) * 0x1p-24f;
}
