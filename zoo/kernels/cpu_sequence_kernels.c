// The kernels for sequences of tokens, for the CPU device. They are plain loops, and the reference
// for sequence_kernels.cu.
#include "common/kernels/cpu_launch.h"
#include "zoo/kernels/sequence_kernels.h"
#include <string.h>

struct look_up {
    const float *tokens, *table;
    float *y;
    size_t width;
};

ALSO_AVX2 static void run_look_up(void *arguments, size_t from, size_t to) {
    struct look_up a = *(struct look_up *)arguments;
    for (size_t row = from; row < to; row++)
        memcpy(a.y + row * a.width, a.table + (size_t)a.tokens[row] * a.width,
               a.width * sizeof *a.y);
}

void look_up(const float *tokens, const float *table, float *y, int rows, int width, int entries,
             cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)width;
    struct look_up a = {READS(tokens, n), READS(table, entries * m), WRITES(y, n * m), m};
    LAUNCH(stream, run_look_up, a, n, rows_per_grain(m));
}

struct look_up_backward {
    const float *tokens, *dy;
    float *dtable;
    size_t rows, width;
};

// Computes the entries from..to of the table.
ALSO_AVX2 static void run_look_up_backward(void *arguments, size_t from, size_t to) {
    struct look_up_backward a = *(struct look_up_backward *)arguments;
    for (size_t i = from * a.width; i < to * a.width; i++)
        a.dtable[i] = 0;
    for (size_t row = 0; row < a.rows; row++) {
        size_t entry = (size_t)a.tokens[row];
        if (entry < from || entry >= to)
            continue;
        float *sums = a.dtable + entry * a.width;
        const float *dy = a.dy + row * a.width;
        for (size_t c = 0; c < a.width; c++)
            sums[c] += dy[c];
    }
}

void look_up_backward(const float *tokens, const float *dy, float *dtable, int rows, int width,
                      int entries, cudaStream_t stream) {
    size_t n = (size_t)rows, m = (size_t)width;
    struct look_up_backward a = {READS(tokens, n), READS(dy, n * m), WRITES(dtable, entries * m), n,
                                 m};
    size_t blocks = (size_t)entries * ((m + 127) / 128), parts = (n + 1023) / 1024; // of a GPU
    COMPUTES(blocks * 256 * (100. + 94 * parts) + 30. * (n * m));
    cpu_waits(blocks * 256, parts * (1 + 4)); // tokens, and rows if a fifth of them are the same
    LAUNCH(stream, run_look_up_backward, a, (size_t)entries, 64);
}
