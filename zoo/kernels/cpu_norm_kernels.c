// The kernels of normalisation for the CPU device. A thread computes a sample. Sums are first made
// for each channel, because the channels of a pixel are neighbours in memory. They are doubles:
// sums of thousands of floats, one after the other, would round ten times more than the sums of
// other implementations, which add in a tree.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/norm_kernels.h"
#include "zoo/kernels/values.h"
#include <math.h>

enum { BLOCK_THREADS = 256 }; // of norm_kernels.cu

struct norming {
    struct norm n;
    void *y;        // of forward
    const void *dy; // of backward
    const float *other;
    float *dx, *sums;
};

static void read_parameters(const struct norm *n, size_t count, float *parameters) {
    for (size_t i = 0; i < count; i++)
        parameters[i] = value_at(n->parameters, n->parameters_type, i);
}

// Adds up the numbers in lanes, which the compiler keeps in vectors.
static double sum_of(const double *x, size_t count) {
    enum { LANES = 8 };
    double lanes[LANES] = {0}, sum = 0;
    size_t whole = count - count % LANES;
    for (size_t i = 0; i < whole; i += LANES)
        for (size_t lane = 0; lane < LANES; lane++)
            lanes[lane] += x[i + lane];
    for (size_t i = whole; i < count; i++)
        sum += x[i];
    for (size_t lane = 0; lane < LANES; lane++)
        sum += lanes[lane];
    return sum;
}

// mean[c] = the mean over the pixels and channels of the group of channel c.
ALSO_AVX2 static void mean_of_groups(const struct norm *n, const double *sums, float *mean) {
    size_t width = n->channels / n->groups;
    for (size_t first = 0; first < n->channels; first += width) {
        double of_group = sum_of(sums + first, width) / (double)(n->pixels * width);
        for (size_t c = first; c < first + width; c++)
            mean[c] = (float)of_group;
    }
}

// Stores mean and 1 / sqrt(variance + 1e-5) of each channel's group in both forms.
ALSO_AVX2 static void measure(const struct norm *n, size_t sample, float *mean, float *inverse) {
    size_t channels = n->channels, width = channels / n->groups, size = n->pixels * channels;
    const float *x = n->x + sample * size;
    float *statistics = n->statistics + sample * n->groups * 2;
    double sums[MOST_NORM_CHANNELS], squares[MOST_NORM_CHANNELS];
    for (size_t c = 0; c < channels; c++)
        sums[c] = squares[c] = 0;
    for (size_t i = 0; i < size; i += channels)
        for (size_t c = 0; c < channels; c++)
            sums[c] += x[i + c];
    mean_of_groups(n, sums, mean);
    for (size_t i = 0; i < size; i += channels)
        for (size_t c = 0; c < channels; c++) {
            float difference = x[i + c] - mean[c];
            squares[c] += difference * difference;
        }
    mean_of_groups(n, squares, inverse);
    for (size_t c = 0; c < channels; c++)
        inverse[c] = 1 / sqrtf(inverse[c] + 1e-5f);
    for (size_t group = 0; group < n->groups; group++) {
        statistics[2 * group] = mean[group * width];
        statistics[2 * group + 1] = inverse[group * width];
    }
}

ALWAYS_INLINE void normalise_sample(cudaDataType type, struct norming a, size_t sample,
                                    const float *scale, const float *shift) {
    size_t channels = a.n.channels, first = sample * a.n.pixels * channels;
    float mean[MOST_NORM_CHANNELS], inverse[MOST_NORM_CHANNELS];
    measure(&a.n, sample, mean, inverse);
    for (size_t i = first; i < first + a.n.pixels * channels; i += channels)
        for (size_t c = 0; c < channels; c++) {
            float y = (a.n.x[i + c] - mean[c]) * inverse[c] * scale[c] + shift[c];
            set_value(a.y, type, i + c, a.n.relu && y < 0.f ? 0.f : y); // NaN stays NaN
        }
}

ALSO_AVX2 static void run_normalise(void *arguments, size_t from, size_t to) {
    struct norming a = *(struct norming *)arguments;
    float parameters[2 * MOST_NORM_CHANNELS];
    read_parameters(&a.n, 2 * a.n.channels, parameters);
    for (size_t sample = from; sample < to; sample++)
        CALL_TYPED(normalise_sample, a.n.type, a, sample, parameters, parameters + a.n.channels);
}

// Returns how often the threads of a GPU wait for numbers of a group. They are in the cache when
// the threads read them again. A thread loads the channels of one token, or of 4 pixels at a time.
static size_t rounds(const struct norm *n, size_t threads) {
    size_t width = n->channels / n->groups, channels = width % 4 ? 1 : 4;
    size_t loads = threads * channels * (n->pixels == 1 ? 1 : 4);
    return (n->pixels * width + loads - 1) / loads;
}

void normalise(const struct norm *n, void *y, cudaStream_t stream) {
    size_t size = n->pixels * n->channels, count = n->samples * size;
    size_t threads = n->pixels == 1 ? 32 : BLOCK_THREADS; // for a group
    size_t waits = rounds(n, threads);
    struct norming a = {.n = *n, .y = WRITES_VALUES(y, n->type, count)};
    a.n.x = READS(n->x, count);
    a.n.parameters = READS_VALUES(n->parameters, n->parameters_type, 2 * n->channels);
    a.n.statistics = WRITES(n->statistics, n->samples * n->groups * 2);
    threads *= n->samples * n->groups;
    COMPUTES(200. * threads + 21. * count);
    cpu_waits(threads, waits);
    LAUNCH(stream, run_normalise, a, n->samples, rows_per_grain(size));
}

// With d = dy * scale: the gradient of x is (d - mean of d - normalised * mean of (d * normalised))
// / deviation. Adds the gradients of the parameters to sums.
ALWAYS_INLINE void normalise_sample_backward(cudaDataType type, struct norming a, size_t sample,
                                             const float *scale, float *sums) {
    size_t channels = a.n.channels, width = channels / a.n.groups, size = a.n.pixels * channels;
    size_t first = sample * size;
    const float *x = a.n.x, *statistics = a.n.statistics + sample * a.n.groups * 2;
    float mean[MOST_NORM_CHANNELS], inverse[MOST_NORM_CHANNELS];
    float mean_d[MOST_NORM_CHANNELS], mean_product[MOST_NORM_CHANNELS];
    double d[MOST_NORM_CHANNELS], product[MOST_NORM_CHANNELS]; // of this sample
    for (size_t c = 0, left = width; c < channels; c++) {
        mean[c] = statistics[0];
        inverse[c] = statistics[1];
        d[c] = product[c] = 0;
        if (--left == 0) {
            statistics += 2;
            left = width;
        }
    }
    for (size_t i = first; i < first + size; i += channels)
        for (size_t c = 0; c < channels; c++) {
            float dy = value_at(a.dy, type, i + c);
            d[c] += dy;
            product[c] += dy * ((x[i + c] - mean[c]) * inverse[c]);
        }
    for (size_t c = 0; c < channels; c++) {
        sums[c] += (float)product[c];
        sums[channels + c] += (float)d[c];
        d[c] *= scale[c];
        product[c] *= scale[c];
    }
    if (!a.dx)
        return;
    mean_of_groups(&a.n, d, mean_d);
    mean_of_groups(&a.n, product, mean_product);
    for (size_t i = first; i < first + size; i += channels)
        for (size_t c = 0; c < channels; c++) {
            float normalised = (x[i + c] - mean[c]) * inverse[c];
            float of_x = value_at(a.dy, type, i + c) * scale[c] - mean_d[c];
            of_x = (of_x - normalised * mean_product[c]) * inverse[c];
            a.dx[i + c] = a.other ? a.other[i + c] + of_x : of_x;
        }
}

// Computes the samples and the sums of the slices from..to.
ALSO_AVX2 static void run_normalise_backward(void *arguments, size_t from, size_t to) {
    struct norming a = *(struct norming *)arguments;
    size_t channels = a.n.channels, slices = norm_slices(a.n.samples);
    float scale[MOST_NORM_CHANNELS];
    read_parameters(&a.n, channels, scale);
    for (size_t slice = from; slice < to; slice++) {
        float *sums = a.sums + slice * 2 * channels;
        memset(sums, 0, 2 * channels * sizeof *sums);
        for (size_t sample = a.n.samples * slice / slices;
             sample < a.n.samples * (slice + 1) / slices; sample++)
            CALL_TYPED(normalise_sample_backward, a.n.type, a, sample, scale, sums);
    }
}

void normalise_backward(const struct norm *n, const void *dy, const float *other, float *dx,
                        float *gradients, float *scratch, cudaStream_t stream) {
    size_t size = n->pixels * n->channels, count = n->samples * size;
    size_t slices = norm_slices(n->samples);
    struct norming a = {.n = *n,
                        .dy = READS_VALUES(dy, n->type, count),
                        .other = other ? READS(other, count) : NULL,
                        .dx = dx ? WRITES(dx, count) : NULL,
                        .sums = WRITES(scratch, slices * 2 * n->channels)};
    a.n.x = READS(n->x, count);
    a.n.parameters = READS_VALUES(n->parameters, n->parameters_type, n->channels);
    a.n.statistics = (float *)READS(n->statistics, n->samples * n->groups * 2);
    size_t threads = slices * n->groups * BLOCK_THREADS, width = n->channels / n->groups;
    size_t for_group = n->pixels == 1 && width <= (width % 4 ? 32 : 128) ? 32 : BLOCK_THREADS;
    size_t groups_of_slice = (n->samples + slices - 1) / slices,
           at_once = BLOCK_THREADS / for_group;
    COMPUTES(200. * threads + 150. * (n->samples * n->groups * for_group) +
             count * (n->pixels == 1 ? 32. : 20.));
    cpu_waits(threads, // for x and dy, and then for other
              (groups_of_slice + at_once - 1) / at_once * 2 * rounds(n, for_group));
    LAUNCH(stream, run_normalise_backward, a, slices, rows_per_grain(count / slices + 1));
    sum_rows(scratch, gradients, (int)slices, (int)(2 * n->channels), stream);
}
