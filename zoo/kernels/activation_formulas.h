// The activations, once for both devices, as common/kernels/formulas.h explains. Each device has
// its own sigmoid(x) = 1 / (1 + e^-x), in the file that includes this one.
#pragma once
#include "zoo/kernels/sequence_kernels.h"

// (1 + tanh(u)) / 2 for the u of GELU at x.
DEVICE_FUNCTION float gelu_share(float x) {
    return sigmoid(2 * 0.7978845608f * (x + 0.044715f * x * x * x));
}

struct gelu {
    const float *x;
    float *y;
};

FORMULA(gelu) {
    a.y[i] = a.x[i] * gelu_share(a.x[i]);
}

void gelu(const float *x, float *y, size_t count, cudaStream_t stream) {
    struct gelu a = {READS(x, count), WRITES(y, count)};
    COMPUTES(count, 1);
    LAUNCH_FORMULA(gelu, a, count, stream);
}

struct gelu_backward {
    const float *x, *dy;
    float *dx;
};

FORMULA(gelu_backward) {
    float x = a.x[i], share = gelu_share(x);
    float slope = 2 * 0.7978845608f * (1 + 3 * 0.044715f * x * x);
    a.dx[i] = a.dy[i] * share * (1 + x * (1 - share) * slope);
}

void gelu_backward(const float *x, const float *dy, float *dx, size_t count, cudaStream_t stream) {
    struct gelu_backward a = {READS(x, count), READS(dy, count), WRITES(dx, count)};
    COMPUTES(count, 1);
    LAUNCH_FORMULA(gelu_backward, a, count, stream);
}
