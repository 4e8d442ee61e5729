// Kernels of normalisation, as common/kernels/kernels.h describes them.
#pragma once
#include "common/kernels/kernels.h"

// Group normalisation (Wu and He, "Group normalization", 2018), as in torch.nn.GroupNorm. A group
// is channels / groups neighbouring channels of one sample. With its mean and its variance (biased)
// over all pixels and channels of the group:
//   normalised = (x - mean) / sqrt(variance + 1e-5); y = normalised * scale[c] + shift[c]
// and y = max(y, 0) if relu. Layer normalisation (Ba et al., "Layer normalization", 2016), as in
// torch.nn.LayerNorm, is the same with a token as a sample of one pixel and one group.
enum { MOST_NORM_CHANNELS = 4096 };
struct norm {
    size_t samples, pixels, channels, groups; // x and y: [samples, pixels, channels]
    int relu;
    cudaDataType type;            // of y and dy, which are values (zoo/kernels/value_kernels.h)
    const float *x;               // channels is at most MOST_NORM_CHANNELS
    const void *parameters;       // scale [channels] and shift [channels],
    cudaDataType parameters_type; // of a type of their own
    float *statistics;            // [samples, groups, 2]: mean and 1 / sqrt(...)
};

// Writes y and the statistics.
void normalise(const struct norm *n, void *y, cudaStream_t stream);

// The gradients of the parameters are first summed for slices of the samples. Returns their number.
static inline size_t norm_slices(size_t samples) {
    return samples < 512 ? samples + 1 : 512;
}

// Reads the statistics. relu does not matter. dx = other + the gradient of x. other may be NULL,
// and is then 0. dx may be NULL. gradients [2, channels]: those of scale and shift. scratch:
// norm_slices(samples) * 2 * channels floats.
void normalise_backward(const struct norm *n, const void *dy, const float *other, float *dx,
                        float *gradients, float *scratch, cudaStream_t stream);
