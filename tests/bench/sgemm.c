// sgemm BATCH EPOCHS: the matrix products of step 1's training step and nothing else, as a limit to
// its speed. Prints a line per epoch like the trainer's.
#ifdef WITH_ONEDNN
#include <dnnl.h>
#else
#include <cblas.h>
#endif
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { LAYERS = 3, IMAGES = 60000 };
static const int width[LAYERS + 1] = {784, 512, 512, 10};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

// On a page of its own, as device memory is. Small values, neither zero nor subnormal.
static float *new_array(size_t count) {
    float *array = aligned_alloc(4096, (count * sizeof *array + 4095) / 4096 * 4096);
    if (!array)
        exit(1);
    for (size_t i = 0; i < count; i++)
        array[i] = (float)((int)(i * 7919 % 257) - 128) * 1e-4f;
    return array;
}

// The call that matmul in common/layers/products.c comes down to, with the library's own threads.
static void matmul(int transpose_a, int transpose_b, int m, int n, int k, const float *a,
                   const float *b, float *c) {
#ifdef WITH_ONEDNN
    if (dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', m, n, k, 1, a,
                   transpose_a ? m : k, b, transpose_b ? k : n, 0, c, n))
        exit(1);
#else
    cblas_sgemm(CblasColMajor, transpose_b ? CblasTrans : CblasNoTrans,
                transpose_a ? CblasTrans : CblasNoTrans, n, m, k, 1, b, transpose_b ? k : n, a,
                transpose_a ? m : k, 0, c, n);
#endif
}

int main(int argc, char **argv) {
    int batch = argc == 3 ? atoi(argv[1]) : 0, epochs = argc == 3 ? atoi(argv[2]) : 0;
    if (batch < 1 || batch > IMAGES || epochs < 1) {
        fprintf(stderr, "usage: %s BATCH EPOCHS\n", argv[0]);
        return 2;
    }
    size_t parameters = 0, first[LAYERS];
    float *x[LAYERS + 1];
    x[0] = new_array((size_t)batch * width[0]);
    for (int i = 0; i < LAYERS; i++) {
        first[i] = parameters;
        parameters += (size_t)width[i + 1] * (width[i] + 1);
        x[i + 1] = new_array((size_t)batch * width[i + 1]);
    }
    float *weights = new_array(parameters), *gradients = new_array(parameters);
    float *dy = new_array((size_t)batch * 512), *dx = new_array((size_t)batch * 512);
    for (int epoch = 1; epoch <= epochs; epoch++) {
        double start = seconds();
        for (int step = 0; step < IMAGES / batch; step++) {
            for (int i = 0; i < LAYERS; i++)
                matmul(0, 1, batch, width[i + 1], width[i], x[i], weights + first[i], x[i + 1]);
            for (int i = LAYERS - 1; i >= 0; i--) {
                matmul(1, 0, width[i + 1], width[i], batch, dy, x[i], gradients + first[i]);
                if (i > 0)
                    matmul(0, 0, batch, width[i], width[i + 1], dy, weights + first[i], dx);
                float *swap = dy;
                dy = dx;
                dx = swap;
            }
        }
        double elapsed = seconds() - start;
        printf("epoch %d/%d  %.2f s  %.0f images/s\n", epoch, epochs, elapsed,
               IMAGES / batch * batch / elapsed);
    }
    return 0;
}
