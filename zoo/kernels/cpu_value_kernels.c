// The kernels of values for the CPU device. A row is computed by one thread. The type is a constant
// in each loop, so that the compiler vectorizes the loops of both types.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/cpu_exponential.h"
#include "zoo/kernels/norm_kernels.h"
#include <math.h>

static inline float sigmoid(float x) {
    return 1 / (1 + exponential(-x));
}

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#define FORMULA_OF_ROWS(kernel)                                                                    \
    ALWAYS_INLINE void kernel##_at(struct rows a, cudaDataType type, size_t i, size_t col);        \
    static void run_##kernel(void *arguments, size_t from, size_t to) {                            \
        struct rows a = *(struct rows *)arguments;                                                 \
        for (size_t i = from * a.cols; i < to * a.cols; i += a.cols)                               \
            if (a.type == CUDA_R_32F)                                                              \
                for (size_t col = 0; col < a.cols; col++)                                          \
                    kernel##_at(a, CUDA_R_32F, i + col, col);                                      \
            else                                                                                   \
                for (size_t col = 0; col < a.cols; col++)                                          \
                    kernel##_at(a, CUDA_R_16BF, i + col, col);                                     \
    }                                                                                              \
    ALWAYS_INLINE void kernel##_at(struct rows a, cudaDataType type, size_t i, size_t col)
#define LAUNCH_ROWS(kernel, a, stream)                                                             \
    LAUNCH(stream, run_##kernel, a, (a).rows, rows_per_grain((a).cols))

static void run_columns(void *arguments, size_t from, size_t to);
#define LAUNCH_COLUMNS(a, slices, stream)                                                          \
    LAUNCH(stream, run_columns, a, slices, rows_per_grain((a).rows / (slices) * (a).cols + 1))

#include "zoo/kernels/value_formulas.h"

// Slice number i of n rows has the rows from n * i / slices on.
static size_t first_row(size_t rows, size_t slice) {
    return rows * slice / (size_t)column_slices((int)rows);
}

ALWAYS_INLINE void add_row(struct columns a, cudaDataType type, size_t first, float *sums) {
    for (size_t col = 0; !a.bias && col < a.cols; col++)
        sums[col] += value_at(a.x, type, first + col);
    for (size_t col = 0; !a.bias && a.y && col < a.cols; col++)
        set_value(a.y, CUDA_R_16BF, first + col, value_at(a.x, type, first + col));
    for (size_t col = 0; a.bias && col < a.cols; col++) {
        float x = value_at(a.x, type, first + col) + value_at(a.bias, type, col);
        float gradient = gelu_gradient(x, value_at(a.dy, type, first + col));
        set_value(a.y, type, first + col, gradient);
        sums[col] += gradient;
    }
}

// Computes the sums of the slices from..to.
static void run_columns(void *arguments, size_t from, size_t to) {
    struct columns a = *(struct columns *)arguments;
    for (size_t slice = from; slice < to; slice++) {
        float *sums = a.sums + slice * a.cols;
        memset(sums, 0, a.cols * sizeof *sums);
        for (size_t row = first_row(a.rows, slice); row < first_row(a.rows, slice + 1); row++)
            if (a.type == CUDA_R_32F)
                add_row(a, CUDA_R_32F, row * a.cols, sums);
            else
                add_row(a, CUDA_R_16BF, row * a.cols, sums);
    }
}

// Adds up the numbers in lanes, which the compiler keeps in vectors.
static float sum_of(const float *x, size_t count) {
    enum { LANES = 16 };
    float lanes[LANES] = {0}, sum = 0;
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

struct layer_norm {
    const float *x;
    const void *parameters;
    cudaDataType parameter_type, type;
    void *y;        // of forward
    const void *dy; // of backward
    const float *other;
    float *dx, *statistics, *sums;
    size_t rows, cols;
};

// Reads scale and shift as floats.
static void read_parameters(const struct layer_norm *a, float *scale, float *shift) {
    for (size_t col = 0; col < a->cols; col++)
        scale[col] = value_at(a->parameters, a->parameter_type, col);
    for (size_t col = 0; shift && col < a->cols; col++)
        shift[col] = value_at(a->parameters, a->parameter_type, a->cols + col);
}

ALWAYS_INLINE void normalise_row(struct layer_norm a, cudaDataType type, size_t row,
                                 const float *scale, const float *shift) {
    float difference[MOST_NORM_CHANNELS], square[MOST_NORM_CHANNELS];
    const float *x = a.x + row * a.cols, mean = sum_of(x, a.cols) / (float)a.cols;
    for (size_t col = 0; col < a.cols; col++) {
        difference[col] = x[col] - mean;
        square[col] = difference[col] * difference[col];
    }
    float inverse = 1 / sqrtf(sum_of(square, a.cols) / (float)a.cols + 1e-5f);
    for (size_t col = 0; col < a.cols; col++)
        set_value(a.y, type, row * a.cols + col,
                  difference[col] * inverse * scale[col] + shift[col]);
    a.statistics[2 * row] = mean;
    a.statistics[2 * row + 1] = inverse;
}

static void run_layer_norm(void *arguments, size_t from, size_t to) {
    struct layer_norm a = *(struct layer_norm *)arguments;
    float scale[MOST_NORM_CHANNELS], shift[MOST_NORM_CHANNELS];
    read_parameters(&a, scale, shift);
    for (size_t row = from; row < to; row++)
        if (a.type == CUDA_R_32F)
            normalise_row(a, CUDA_R_32F, row, scale, shift);
        else
            normalise_row(a, CUDA_R_16BF, row, scale, shift);
}

void layer_norm(const float *x, void *y, cudaDataType type, const void *parameters,
                cudaDataType parameter_type, float *statistics, int rows, int cols,
                cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols;
    struct layer_norm a = {.x = READS(x, n * m),
                           .y = WRITES_VALUES(y, type, n * m),
                           .type = type,
                           .parameters = READS_VALUES(parameters, parameter_type, 2 * m),
                           .parameter_type = parameter_type,
                           .statistics = WRITES(statistics, 2 * n),
                           .rows = n,
                           .cols = m};
    COMPUTES(32. * (n * m));
    LAUNCH(stream, run_layer_norm, a, n, rows_per_grain(m));
}

// With d = dy * scale: the gradient of x is (d - mean of d - normalised * mean of (d * normalised))
// / deviation.
ALWAYS_INLINE void normalise_row_backward(struct layer_norm a, cudaDataType type, size_t row,
                                          const float *scale, float *dscale, float *dshift) {
    float normalised[MOST_NORM_CHANNELS], d[MOST_NORM_CHANNELS], product[MOST_NORM_CHANNELS];
    float mean = a.statistics[2 * row], inverse = a.statistics[2 * row + 1];
    size_t first = row * a.cols;
    for (size_t col = 0; col < a.cols; col++) {
        float dy = value_at(a.dy, type, first + col);
        normalised[col] = (a.x[first + col] - mean) * inverse;
        d[col] = dy * scale[col];
        product[col] = d[col] * normalised[col];
        dscale[col] += dy * normalised[col];
        dshift[col] += dy;
    }
    if (!a.dx)
        return;
    float mean_d = sum_of(d, a.cols) / (float)a.cols;
    float mean_product = sum_of(product, a.cols) / (float)a.cols;
    for (size_t col = 0; col < a.cols; col++) {
        float other = a.other ? a.other[first + col] : 0.f;
        a.dx[first + col] = other + (d[col] - mean_d - normalised[col] * mean_product) * inverse;
    }
}

// Computes the rows and the sums of the slices from..to.
static void run_layer_norm_backward(void *arguments, size_t from, size_t to) {
    struct layer_norm a = *(struct layer_norm *)arguments;
    float scale[MOST_NORM_CHANNELS];
    read_parameters(&a, scale, NULL);
    for (size_t slice = from; slice < to; slice++) {
        float *dscale = a.sums + slice * 2 * a.cols, *dshift = dscale + a.cols;
        memset(dscale, 0, 2 * a.cols * sizeof *dscale);
        for (size_t row = first_row(a.rows, slice); row < first_row(a.rows, slice + 1); row++)
            if (a.type == CUDA_R_32F)
                normalise_row_backward(a, CUDA_R_32F, row, scale, dscale, dshift);
            else
                normalise_row_backward(a, CUDA_R_16BF, row, scale, dscale, dshift);
    }
}

void layer_norm_backward(const float *x, const void *dy, cudaDataType type, const float *other,
                         float *dx, const void *parameters, cudaDataType parameter_type,
                         const float *statistics, float *gradients, float *scratch, int rows,
                         int cols, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)cols, slices = (size_t)column_slices(rows);
    struct layer_norm a = {.x = READS(x, n * m),
                           .dy = READS_VALUES(dy, type, n * m),
                           .type = type,
                           .other = other ? READS(other, n * m) : NULL,
                           .dx = dx ? WRITES(dx, n * m) : NULL,
                           .parameters = READS_VALUES(parameters, parameter_type, m),
                           .parameter_type = parameter_type,
                           .statistics = READS(statistics, 2 * n),
                           .sums = WRITES(scratch, slices * 2 * m),
                           .rows = n,
                           .cols = m};
    COMPUTES(80. * (n * m));
    LAUNCH(stream, run_layer_norm_backward, a, slices, rows_per_grain(n / slices * m + 1));
    sum_rows(scratch, gradients, (int)slices, 2 * cols, stream);
}
