// The kernels for the CPU device: plain loops, the reference for kernels.cu. Each launcher puts the
// device threads' view of its arrays into a small struct and queues the loop that works on it.
#include "../kernels.h"
#include "../error.h"
#include "../rng.h"
#include "device.h"
#include <math.h>

// Elements that are worth a thread of their own: some microseconds of work.
enum { GRAIN = 1 << 13 };

static size_t rows_per_grain(size_t row) {
    return row < GRAIN ? GRAIN / row : 1;
}

// What a GPU reports as an illegal address some time later is caught at the launch here.
static void *view(const void *pointer, size_t bytes, const char *kernel, const char *array) {
    CUDA_CHECK(cpu_enter());
    void *memory = cpu_view(pointer, bytes);
    if (!memory && cpu_is_device_pointer(pointer))
        fail("%s: %s: %zu bytes at %p are not all inside one allocation of device memory", kernel, array,
             bytes, pointer);
    if (!memory)
        fail("%s: %s: %p is not device memory; kernels reach what cudaMalloc returned, so copy "
             "there with cudaMemcpy first",
             kernel, array, pointer);
    return memory;
}

#define VIEW(array, count) view(array, (count) * sizeof *(array), __func__, #array)
#define LAUNCH(stream, run, arguments, count, grain)                                                         \
    CUDA_CHECK(cpu_launch_range(stream, run, &(arguments), sizeof(arguments), count, grain))

struct fill_uniform {
    float *values;
    size_t count;
    float bound;
    uint64_t seed, first;
};

static void run_fill_uniform(void *arguments, size_t from, size_t to) {
    struct fill_uniform a = *(struct fill_uniform *)arguments;
    for (size_t i = from; i < to; i++)
        a.values[i] = a.bound * (2.f * rng_uniform(a.seed, a.first + i) - 1.f);
}

void fill_uniform(float *values, size_t count, float bound, uint64_t seed, uint64_t first,
                  cudaStream_t stream) {
    struct fill_uniform a = {VIEW(values, count), count, bound, seed, first};
    LAUNCH(stream, run_fill_uniform, a, count, GRAIN);
}

struct gather_batch {
    const uint8_t *images, *labels;
    const uint32_t *order;
    size_t first, rows, pixels;
    float scale, shift;
    float *x;
    uint8_t *y;
};

static void run_gather_batch(void *arguments, size_t from, size_t to) {
    struct gather_batch a = *(struct gather_batch *)arguments;
    for (size_t row = from; row < to; row++) {
        size_t sample = a.order ? a.order[a.first + row] : a.first + row;
        const uint8_t *image = a.images + sample * a.pixels;
        float *x = a.x + row * a.pixels;
        for (size_t p = 0; p < a.pixels; p++)
            x[p] = (float)image[p] * a.scale + a.shift;
        a.y[row] = a.labels[sample];
    }
}

void gather_batch(const uint8_t *images, const uint8_t *labels, const uint32_t *order, size_t first, int rows,
                  int pixels, float mean, float deviation, float *x, uint8_t *y, cudaStream_t stream) {
    size_t n = (size_t)rows, p = (size_t)pixels;
    size_t samples = order ? 1 : first + n; // which ones the order picks is not known here
    struct gather_batch a = {VIEW(images, samples * p),
                             VIEW(labels, samples),
                             order ? VIEW(order, first + n) : NULL,
                             first,
                             n,
                             p,
                             1.f / (255.f * deviation),
                             -mean / deviation,
                             VIEW(x, n * p),
                             VIEW(y, n)};
    LAUNCH(stream, run_gather_batch, a, n, rows_per_grain(p));
}

struct add_bias {
    float *y;
    const float *bias;
    size_t rows, cols;
    int relu;
};

static void run_add_bias(void *arguments, size_t from, size_t to) {
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
    struct add_bias a = {VIEW(y, n * m), VIEW(bias, m), n, m, relu};
    LAUNCH(stream, run_add_bias, a, n, rows_per_grain(m));
}

struct relu_backward {
    float *dy;
    const float *y;
    size_t count;
};

static void run_relu_backward(void *arguments, size_t from, size_t to) {
    struct relu_backward a = *(struct relu_backward *)arguments;
    for (size_t i = from; i < to; i++)
        a.dy[i] = a.y[i] <= 0.f ? 0.f : a.dy[i];
}

void relu_backward(float *dy, const float *y, size_t count, cudaStream_t stream) {
    struct relu_backward a = {VIEW(dy, count), VIEW(y, count), count};
    LAUNCH(stream, run_relu_backward, a, count, GRAIN);
}

struct sum_rows {
    const float *x;
    float *sums;
    size_t rows, cols;
};

static void run_sum_rows(void *arguments, size_t from, size_t to) {
    struct sum_rows a = *(struct sum_rows *)arguments;
    for (size_t col = from; col < to; col++)
        a.sums[col] = 0.f;
    for (size_t row = 0; row < a.rows; row++) // whole rows, in the order in which they lie in memory
        for (size_t col = from; col < to; col++)
            a.sums[col] += a.x[row * a.cols + col];
}

void sum_rows(const float *x, float *sums, int rows, int cols, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    struct sum_rows a = {VIEW(x, n * m), VIEW(sums, m), n, m};
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
};

static void run_softmax_cross_entropy(void *arguments, size_t from, size_t to) {
    struct softmax_cross_entropy a = *(struct softmax_cross_entropy *)arguments;
    for (size_t row = from; row < to; row++) {
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
        a.stats->loss += (double)(logf(sum) - (z[label] - z[best]));
        a.stats->correct += best == label;
        a.stats->samples += 1;
    }
}

void softmax_cross_entropy(const float *logits, const uint8_t *labels, int rows, int classes, float scale,
                           float *dlogits, struct stats *stats, cudaStream_t stream) {
    size_t n = (size_t)rows, elements = n * (size_t)classes;
    struct softmax_cross_entropy a = {
        VIEW(logits, elements), VIEW(labels, n), n, classes, scale, dlogits ? VIEW(dlogits, elements) : NULL,
        VIEW(stats, 1)};
    LAUNCH(stream, run_softmax_cross_entropy, a, n, n);
}

struct sgd_step {
    float *parameters;
    const float *gradients;
    float *velocity;
    size_t count;
    float lr, momentum;
};

static void run_sgd_step(void *arguments, size_t from, size_t to) {
    struct sgd_step a = *(struct sgd_step *)arguments;
    for (size_t i = from; i < to; i++) {
        a.velocity[i] = a.momentum * a.velocity[i] + a.gradients[i];
        a.parameters[i] -= a.lr * a.velocity[i];
    }
}

void sgd_step(float *parameters, const float *gradients, float *velocity, size_t count, float lr,
              float momentum, cudaStream_t stream) {
    struct sgd_step a = {
        VIEW(parameters, count), VIEW(gradients, count), VIEW(velocity, count), count, lr, momentum};
    LAUNCH(stream, run_sgd_step, a, count, GRAIN);
}
