// The kernels of group normalisation for the CPU device. Each image is computed by one thread. Sums
// are first made for each channel, because the channels of a pixel are neighbours in memory. They
// are doubles: sums of thousands of floats, one after the other, would round ten times more than
// the sums of other implementations, which add in a tree.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/norm_kernels.h"
#include <math.h>

struct norm {
    const float *x, *dy, *scale, *shift;
    float *statistics, *y;
    size_t pixels, channels, groups;
    int relu;
};

static struct norm norm_sizes(struct groups g) {
    return (struct norm){.pixels = (size_t)g.in.height * (size_t)g.in.width,
                         .channels = (size_t)g.in.channels,
                         .groups = (size_t)g.groups};
}

// mean[c] = the mean over the pixels and channels of the group of channel c.
static void mean_of_groups(const struct norm *a, const double *sums, float *mean) {
    size_t width = a->channels / a->groups;
    for (size_t first = 0; first < a->channels; first += width) {
        double sum = 0;
        for (size_t c = first; c < first + width; c++)
            sum += sums[c];
        for (size_t c = first; c < first + width; c++)
            mean[c] = (float)(sum / (double)(a->pixels * width));
    }
}

// Stores mean and 1 / sqrt(variance + 1e-5) of each channel's group in both forms.
static void measure(const struct norm *a, const float *x, float *statistics, float *mean,
                    float *inverse) {
    size_t channels = a->channels, width = channels / a->groups;
    double sums[MOST_NORM_CHANNELS], squares[MOST_NORM_CHANNELS];
    for (size_t c = 0; c < channels; c++)
        sums[c] = squares[c] = 0;
    for (size_t p = 0; p < a->pixels; p++)
        for (size_t c = 0; c < channels; c++)
            sums[c] += x[p * channels + c];
    mean_of_groups(a, sums, mean);
    for (size_t p = 0; p < a->pixels; p++)
        for (size_t c = 0; c < channels; c++) {
            float difference = x[p * channels + c] - mean[c];
            squares[c] += difference * difference;
        }
    mean_of_groups(a, squares, inverse);
    for (size_t c = 0; c < channels; c++) {
        inverse[c] = 1 / sqrtf(inverse[c] + 1e-5f);
        statistics[c / width * 2] = mean[c];
        statistics[c / width * 2 + 1] = inverse[c];
    }
}

static void run_group_norm(void *arguments, size_t from, size_t to) {
    struct norm a = *(struct norm *)arguments;
    float mean[MOST_NORM_CHANNELS], inverse[MOST_NORM_CHANNELS];
    for (size_t image = from; image < to; image++) {
        size_t first = image * a.pixels * a.channels;
        measure(&a, a.x + first, a.statistics + image * a.groups * 2, mean, inverse);
        for (size_t p = first; p < first + a.pixels * a.channels; p += a.channels)
            for (size_t c = 0; c < a.channels; c++) {
                float y = (a.x[p + c] - mean[c]) * inverse[c] * a.scale[c] + a.shift[c];
                a.y[p + c] = a.relu && y < 0.f ? 0.f : y; // NaN stays NaN
            }
    }
}

void group_norm(const float *x, float *y, const float *scale, const float *shift, float *statistics,
                int images, struct groups g, int relu, cudaStream_t stream) {
    size_t n = (size_t)images, count = (size_t)shape_size(g.in), channels = (size_t)g.in.channels;
    struct norm a = norm_sizes(g);
    a.x = READS(x, n * count);
    a.y = WRITES(y, n * count);
    a.scale = READS(scale, channels);
    a.shift = READS(shift, channels);
    a.statistics = WRITES(statistics, n * 2 * a.groups);
    a.relu = relu;
    COMPUTES(62. * (n * count));
    LAUNCH(stream, run_group_norm, a, n, rows_per_grain(count));
}

// Copies the statistics of an image's groups to their channels.
static void read_statistics(const struct norm *a, size_t image, float *mean, float *inverse) {
    size_t width = a->channels / a->groups;
    const float *statistics = a->statistics + image * a->groups * 2;
    for (size_t c = 0; c < a->channels; c++) {
        mean[c] = statistics[c / width * 2];
        inverse[c] = statistics[c / width * 2 + 1];
    }
}

// With d = dy * scale: dx = (d - mean of d - normalised * mean of (d * normalised)) / deviation.
static void run_group_norm_backward(void *arguments, size_t from, size_t to) {
    struct norm a = *(struct norm *)arguments;
    float mean[MOST_NORM_CHANNELS], inverse[MOST_NORM_CHANNELS];
    float mean_d[MOST_NORM_CHANNELS], mean_product[MOST_NORM_CHANNELS];
    double d[MOST_NORM_CHANNELS], product[MOST_NORM_CHANNELS];
    size_t channels = a.channels;
    for (size_t image = from; image < to; image++) {
        const float *x = a.x + image * a.pixels * channels, *dy = a.dy + (x - a.x);
        float *dx = a.y + (x - a.x);
        read_statistics(&a, image, mean, inverse);
        for (size_t c = 0; c < channels; c++)
            d[c] = product[c] = 0;
        for (size_t p = 0; p < a.pixels * channels; p += channels)
            for (size_t c = 0; c < channels; c++) {
                float scaled = dy[p + c] * a.scale[c];
                d[c] += scaled;
                product[c] += scaled * ((x[p + c] - mean[c]) * inverse[c]);
            }
        mean_of_groups(&a, d, mean_d);
        mean_of_groups(&a, product, mean_product);
        for (size_t p = 0; p < a.pixels * channels; p += channels)
            for (size_t c = 0; c < channels; c++) {
                float normalised = (x[p + c] - mean[c]) * inverse[c];
                dx[p + c] = (dy[p + c] * a.scale[c] - mean_d[c] - normalised * mean_product[c]) *
                            inverse[c];
            }
    }
}

void group_norm_backward(const float *x, const float *dy, float *dx, const float *scale,
                         const float *statistics, int images, struct groups g,
                         cudaStream_t stream) {
    size_t n = (size_t)images, count = (size_t)shape_size(g.in), channels = (size_t)g.in.channels;
    struct norm a = norm_sizes(g);
    a.x = READS(x, n * count);
    a.dy = READS(dy, n * count);
    a.y = WRITES(dx, n * count);
    a.scale = READS(scale, channels);
    a.statistics = READS(statistics, n * 2 * a.groups);
    COMPUTES(65. * (n * count));
    LAUNCH(stream, run_group_norm_backward, a, n, rows_per_grain(count));
}

static void run_multiply_by_normalised(void *arguments, size_t from, size_t to) {
    struct norm a = *(struct norm *)arguments;
    float mean[MOST_NORM_CHANNELS], inverse[MOST_NORM_CHANNELS];
    for (size_t image = from; image < to; image++) {
        size_t first = image * a.pixels * a.channels;
        read_statistics(&a, image, mean, inverse);
        for (size_t p = first; p < first + a.pixels * a.channels; p += a.channels)
            for (size_t c = 0; c < a.channels; c++)
                a.y[p + c] *= (a.x[p + c] - mean[c]) * inverse[c];
    }
}

void multiply_by_normalised(const float *x, float *dy, const float *statistics, int images,
                            struct groups g, cudaStream_t stream) {
    size_t n = (size_t)images, count = (size_t)shape_size(g.in);
    struct norm a = norm_sizes(g);
    a.x = READS(x, n * count);
    a.y = UPDATES(dy, n * count);
    a.statistics = READS(statistics, n * 2 * a.groups);
    COMPUTES(38. * (n * count));
    LAUNCH(stream, run_multiply_by_normalised, a, n, rows_per_grain(count));
}
