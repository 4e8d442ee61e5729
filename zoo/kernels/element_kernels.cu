// The kernels of the zoo that handle each element of their arrays alone, and the norm of gradients,
// for a GPU.
#include "common/kernels/gpu_launch.h"
extern "C" {
#include "zoo/kernels/element_kernels.h"
}
#include "zoo/kernels/element_formulas.h"

__global__ static void sum_squares_kernel(const float *x, size_t count, double *lanes) {
    FOR_EACH (lane, SQUARES_LANES) {
        double sum = 0;
        for (size_t i = lane; i < count; i += SQUARES_LANES)
            sum += (double)x[i] * x[i];
        lanes[lane] = sum;
    }
}

void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream) {
    LAUNCH(sum_squares_kernel, SQUARES_LANES, stream, x, count, sums);
    fold(sums, SQUARES_LANES, sums, 1, stream);
}

__global__ static void clip_to_norm_kernel(float *x, size_t count, const double *sum_of_squares,
                                           float max_norm) {
    float factor = (float)(max_norm / (sqrt(*sum_of_squares) + 1e-6));
    if (factor >= 1.f) // a factor of NaN makes all values NaN
        return;
    FOR_EACH (i, count)
        x[i] *= factor;
}

void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream) {
    LAUNCH(clip_to_norm_kernel, count, stream, x, count, sum_of_squares, max_norm);
}
