// The kernels of zoo/kernels/element_kernels.h for the CPU device.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/element_formulas.h"
#include "zoo/kernels/element_kernels.h"
#include <math.h>

struct sum_squares {
    const float *x;
    size_t count;
    double *lanes;
};

ALSO_AVX2 static void run_sum_squares(void *arguments, size_t from, size_t to) {
    struct sum_squares a = *(struct sum_squares *)arguments;
    for (size_t lane = from; lane < to; lane++)
        a.lanes[lane] = 0;
    for (size_t first = 0; first < a.count; first += SQUARES_LANES) { // reads x in order
        size_t end = a.count - first < to ? a.count - first : to;
        for (size_t lane = from; lane < end; lane++)
            a.lanes[lane] += (double)a.x[first + lane] * a.x[first + lane];
    }
}

static void run_fold(void *arguments) {
    fold(((struct sum_squares *)arguments)->lanes, SQUARES_LANES, 1);
}

void sum_squares(const float *x, size_t count, double *sums, cudaStream_t stream) {
    struct sum_squares a = {READS(x, count), count, WRITES(sums, SQUARES_LANES)};
    LAUNCH(stream, run_sum_squares, a, SQUARES_LANES, rows_per_grain(count / SQUARES_LANES + 1));
    LAUNCH_ONE(stream, run_fold, a);
}

struct clip_to_norm {
    float *x;
    const double *sum_of_squares;
    float max_norm;
};

ALSO_AVX2 static void run_clip_to_norm(void *arguments, size_t from, size_t to) {
    struct clip_to_norm a = *(struct clip_to_norm *)arguments;
    float factor = (float)(a.max_norm / (sqrt(*a.sum_of_squares) + 1e-6));
    if (factor >= 1.f) // a factor of NaN makes all values NaN
        return;
    for (size_t i = from; i < to; i++)
        a.x[i] *= factor;
}

void clip_to_norm(float *x, size_t count, const double *sum_of_squares, float max_norm,
                  cudaStream_t stream) {
    struct clip_to_norm a = {UPDATES(x, count), READS(sum_of_squares, 1), max_norm};
    LAUNCH(stream, run_clip_to_norm, a, count, GRAIN);
}
