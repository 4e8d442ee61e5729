// The kernels of values for the CPU device. A row is computed by one thread. The type is a constant
// in each loop, so that the compiler vectorizes the loops of both types.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/cpu_exponential.h"
#include "zoo/kernels/values.h"

static inline float sigmoid(float x) {
    return 1 / (1 + exponential(-x));
}

#define FORMULA_OF_ROWS(kernel, y_type)                                                            \
    ALWAYS_INLINE float kernel##_at(cudaDataType type, struct rows a, size_t i, size_t col);       \
    ALWAYS_INLINE void kernel##_row(cudaDataType type, struct rows a, size_t first) {              \
        for (size_t col = 0; col < a.cols; col++)                                                  \
            set_value(a.y, y_type, first + col, kernel##_at(type, a, first + col, col));           \
    }                                                                                              \
    ALSO_AVX2 static void run_##kernel(void *arguments, size_t from, size_t to) {                  \
        struct rows a = *(struct rows *)arguments;                                                 \
        for (size_t row = from; row < to; row++)                                                   \
            CALL_TYPED(kernel##_row, a.type, a, row *a.cols);                                      \
    }                                                                                              \
    ALWAYS_INLINE float kernel##_at(cudaDataType type, struct rows a, size_t i, size_t col)
#define LAUNCH_ROWS(kernel, a, stream)                                                             \
    LAUNCH(stream, run_##kernel, a, (a).rows, rows_per_grain((a).cols))

#include "zoo/kernels/value_formulas.h"

// Slice number i of n rows has the rows from n * i / slices on.
static size_t first_row(size_t rows, size_t slice) {
    return rows * slice / (size_t)column_slices((int)rows);
}

ALWAYS_INLINE void add_row(cudaDataType type, struct rows a, size_t first, float *sums) {
    for (size_t col = 0; !a.bias && col < a.cols; col++)
        sums[col] += value_at(a.x, type, first + col);
    for (size_t col = 0; !a.bias && a.y && col < a.cols; col++)
        set_value(a.y, CUDA_R_16BF, first + col, value_at(a.x, type, first + col));
    for (size_t col = 0; a.bias && col < a.cols; col++) {
        float x = value_at(a.x, type, first + col) + value_at(a.bias, type, col);
        float gradient = gelu_gradient(x, value_at(a.other, type, first + col));
        set_value(a.y, type, first + col, gradient);
        sums[col] += gradient;
    }
}

// Computes the sums of the slices from..to.
ALSO_AVX2 static void run_columns(void *arguments, size_t from, size_t to) {
    struct rows a = *(struct rows *)arguments;
    for (size_t slice = from; slice < to; slice++) {
        float *sums = a.sums + slice * a.cols;
        memset(sums, 0, a.cols * sizeof *sums);
        for (size_t row = first_row(a.rows, slice); row < first_row(a.rows, slice + 1); row++)
            CALL_TYPED(add_row, a.type, a, row * a.cols, sums);
    }
}

// A thread of a GPU adds up columns of a slice, 4 rows at a time.
static void launch_columns(const struct rows *a, size_t slices, cudaStream_t stream) {
    size_t columns = a->cols % 8 ? 1 : a->type == CUDA_R_32F ? 4 : 8; // of a thread
    size_t blocks = (a->cols / columns + 255) / 256 * slices;
    cpu_waits(blocks * 256, ((a->rows + slices - 1) / slices + 3) / 4);
    LAUNCH(stream, run_columns, *a, slices, rows_per_grain(a->rows / slices * a->cols + 1));
}
