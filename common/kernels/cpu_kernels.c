// The kernels of the CPU device: those of the data, of dense layers, of the loss and of step 7.
// They are plain loops, and the reference for the GPU kernels in common/kernels/kernels.cu. Both
// files include the kernels of formulas.h.
#include "common/data/data.h"
#include "common/device/spans.h"
#include "common/kernels/cpu_launch.h"
#include "common/kernels/formulas.h"
#include <math.h>
#include <string.h>

enum { CACHE_LINE = 64 };

struct gather_batch {
    struct dataset set;
    const uint32_t *order; // NULL: samples in their own order
    size_t rows;
    float *x;
    uint8_t *y;
};

// Fetches the next sample, which may lie anywhere, into the cache.
static void prefetch(const uint8_t *values, size_t count) {
    for (size_t i = 0; i < count; i += CACHE_LINE)
        __builtin_prefetch(values + i);
}

ALSO_AVX2 static void run_gather_batch(void *arguments, size_t from, size_t to) {
    struct gather_batch a = *(struct gather_batch *)arguments;
    size_t inputs = a.x ? (size_t)a.set.inputs : 0, targets = (size_t)a.set.targets;
    size_t channels = (size_t)a.set.shape.channels;
    for (size_t row = from; row < to; row++) {
        size_t sample = a.order ? a.order[row] : row;
        if (a.order && row + 1 < to)
            prefetch(a.set.values + a.order[row + 1] * inputs, inputs);
        const uint8_t *values = a.set.values + sample * inputs;
        float *x = a.x ? a.x + row * inputs : NULL;
        for (size_t c = 0; c < channels; c++) {
            float scale = 1.f / (255.f * a.set.deviation[c]);
            float shift = -a.set.mean[c] / a.set.deviation[c];
            for (size_t i = c; channels > 1 && i < inputs; i += channels)
                x[i] = (float)values[i] * scale + shift;
            for (size_t i = 0; channels == 1 && i < inputs; i++) // which the compiler vectorizes
                x[i] = (float)values[i] * scale + shift;
        }
        if (a.y)
            memcpy(a.y + row * targets, a.set.labels + sample * targets, targets);
    }
}

void gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                  float *x, uint8_t *y, cudaStream_t stream) {
    size_t n = (size_t)rows, skipped = order ? 0 : first;
    size_t inputs = x ? (size_t)set->inputs : 0, targets = y ? (size_t)set->targets : 0;
    size_t samples = order ? 1 : n;
    const uint8_t *values = set->values + skipped * inputs,
                  *labels = set->labels + skipped * targets;
    order = order ? order + first : NULL;
    struct gather_batch a = {*set, order ? READS(order, n) : NULL, n, WRITES(x, n * inputs),
                             WRITES(y, n * targets)};
    a.set.values = READS(values, samples * inputs);
    a.set.labels = READS(labels, samples * targets);
    if (order) { // it is device memory, so only the kernel knows which samples it reads
        cpu_may_use(__func__, values, set->count * inputs, 0);
        cpu_may_use(__func__, labels, set->count * targets, 0);
    }
    COMPUTES(57. * (n * inputs));
    span_begin(PHASE_COPY, __func__, stream);
    LAUNCH(stream, run_gather_batch, a, n, rows_per_grain(inputs + targets));
    span_end();
}

struct add_bias {
    float *y;
    const float *bias;
    size_t rows, cols;
    int relu;
};

ALSO_AVX2 static void run_add_bias(void *arguments, size_t from, size_t to) {
    struct add_bias a = *(struct add_bias *)arguments;
    for (size_t row = from; row < to; row++) {
        float *y = a.y + row * a.cols;
        for (size_t col = 0; col < a.cols; col++) {
            float sum = y[col] + a.bias[col];
            y[col] = a.relu && sum < 0.f ? 0.f : sum; // NaN stays NaN
        }
    }
}

void add_bias(float *y, const float *bias, int rows, int cols, int relu, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    struct add_bias a = {UPDATES(y, n * m), READS(bias, m), n, m, relu};
    COMPUTES(20. * (n * m));
    LAUNCH(stream, run_add_bias, a, n, rows_per_grain(m));
}

struct sum_rows {
    const float *x;
    float *sums;
    size_t rows, cols;
};

ALSO_AVX2 static void run_sum_rows(void *arguments, size_t from, size_t to) {
    struct sum_rows a = *(struct sum_rows *)arguments;
    for (size_t col = from; col < to; col++)
        a.sums[col] = 0.f;
    for (size_t row = 0; row < a.rows; row++) // reads x in the order of its memory
        for (size_t col = from; col < to; col++)
            a.sums[col] += a.x[row * a.cols + col];
}

void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    size_t threads = m * (n < 32 ? n : 32); // of a GPU
    struct sum_rows a = {READS(x, n * m), WRITES(sums, m), n, m};
    COMPUTES(threads * (50 + 6. * ((n + 31) / 32)));
    cpu_waits(threads, 2 + (n + 127) / 128); // each thread loads 4 rows at a time
    LAUNCH(stream, run_sum_rows, a, m, 64);
}

struct softmax_cross_entropy {
    const float *logits;
    const uint8_t *labels;
    size_t rows;
    int classes;
    float scale;
    float *dlogits;
    struct stats *stats;
    float smoothing;
};

// Adds the rows of lanes from..to.
ALSO_AVX2 static void run_softmax_cross_entropy(void *arguments, size_t from, size_t to) {
    struct softmax_cross_entropy a = *(struct softmax_cross_entropy *)arguments;
    for (size_t lane = from; lane < to; lane++)
        for (size_t row = lane; row < a.rows; row += STATS_LANES) {
            const float *z = a.logits + row * (size_t)a.classes;
            int label = a.labels[row], best = 0;
            for (int c = 1; c < a.classes; c++)
                if (z[c] > z[best])
                    best = c;
            float sum = 0.f; // exp(z - largest z) cannot overflow
            for (int c = 0; c < a.classes; c++)
                sum += expf(z[c] - z[best]);
            float *dz = a.dlogits ? a.dlogits + row * (size_t)a.classes : NULL;
            for (int c = 0; dz && c < a.classes; c++)
                dz[c] = (expf(z[c] - z[best]) / sum - (float)(c == label)) * a.scale;
            double above = 0; // sum over c of z[label] - z[c]
            for (int c = 0; a.smoothing > 0.f && c < a.classes; c++) {
                above += (double)(z[label] - z[c]);
                if (dz)
                    dz[c] += a.smoothing * ((float)(c == label) - 1.f / (float)a.classes) * a.scale;
            }
            a.stats[lane].loss += (double)(logf(sum) - (z[label] - z[best]));
            a.stats[lane].loss += (double)a.smoothing * above / a.classes;
            a.stats[lane].correct += best == label;
            a.stats[lane].samples += 1;
        }
}

void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes,
                           float scale, float *dlogits, struct stats *stats, float smoothing,
                           cudaStream_t stream) {
    size_t n = (size_t)rows, elements = n * (size_t)classes;
    struct softmax_cross_entropy a = {READS(logits, elements),
                                      READS(labels, n),
                                      n,
                                      classes,
                                      scale,
                                      dlogits ? WRITES(dlogits, elements) : NULL,
                                      UPDATES(stats, STATS_LANES),
                                      smoothing};
    COMPUTES(32 * n * (255 + 53. * ((classes + 31) / 32))); // the threads of a GPU
    cpu_waits(32 * STATS_LANES, (n + STATS_LANES - 1) / STATS_LANES * (2 + (classes + 127) / 128));
    span_begin(PHASE_LOSS, __func__, stream);
    LAUNCH(stream, run_softmax_cross_entropy, a, n < STATS_LANES ? n : STATS_LANES, 64);
    span_end();
}

void fold(double *lanes, size_t count, size_t left) {
    for (size_t now; count > left; count = now) {
        now = count > 64 * left ? count / 64 : left;
        for (size_t first = now; first < count; first += now)
            for (size_t i = 0; i < now; i++)
                lanes[i] += lanes[first + i];
    }
}

struct sum_stats {
    const struct stats *stats;
    struct stats *sums;
};

static void run_sum_stats(void *arguments) {
    struct sum_stats a = *(struct sum_stats *)arguments;
    struct stats lanes[STATS_LANES];
    size_t numbers = sizeof *a.sums / sizeof(double);
    memcpy(lanes, a.stats, sizeof lanes);
    fold((double *)lanes, STATS_LANES * numbers, numbers);
    *a.sums = lanes[0];
}

void sum_stats(const struct stats *stats, struct stats *sums, cudaStream_t stream) {
    struct sum_stats a = {READS(stats, STATS_LANES), WRITES(sums, 1)};
    LAUNCH_ONE(stream, run_sum_stats, a);
}
