// Kernels of group normalisation, as common/kernels/kernels.h describes them.
#pragma once
#include "common/kernels/kernels.h"

// Group normalisation (Wu and He, "Group normalization", 2018), as in torch.nn.GroupNorm. A group
// is channels / groups neighbouring channels of one image. With its mean and its variance (biased)
// over all pixels and channels of the group:
//   normalised = (x - mean) / sqrt(variance + 1e-5); y = normalised * scale[c] + shift[c]
// and y = max(y, 0) if relu. statistics [images, groups, 2] becomes mean and 1 / sqrt(...). There
// are at most MOST_NORM_CHANNELS channels.
enum { MOST_NORM_CHANNELS = 4096 };
struct groups {
    struct shape in;
    int groups;
};
void group_norm(const float *x, float *y, const float *scale, const float *shift, float *statistics,
                int images, struct groups g, int relu, cudaStream_t stream);

// dx from dy, with the statistics of forward.
void group_norm_backward(const float *x, const float *dy, float *dx, const float *scale,
                         const float *statistics, int images, struct groups g, cudaStream_t stream);

// dy *= normalised. The sum over images and pixels is then the gradient of scale.
void multiply_by_normalised(const float *x, float *dy, const float *statistics, int images,
                            struct groups g, cudaStream_t stream);
