#include "bench/allreduce.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_BATCHES = 50 };

// As nccl-tests does, a time is that of a batch of operations, and so of the work and not of
// starting it. 669706 floats are the gradient of step 1.
static const struct {
    size_t count;
    int times, batches; // operations per batch
} sizes[] = {{256, 20, 50},     {16384, 20, 50},  {262144, 20, 25}, {669706, 20, 15},
             {1048576, 20, 10}, {4194304, 10, 4}, {16777216, 4, 3}};

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

// Whole numbers, whose sums are exact, other ones in each rank and place.
static float value(size_t i, int rank) {
    return (float)(i * 7919 % 1009 + (size_t)rank * (i % 13));
}

// Two operations in a row, each of which multiplies what all ranks have in common by their number.
static void check(const struct all_reduce *a, float *buffer, float *host, size_t count, int rank,
                  int ranks) {
    for (size_t i = 0; i < count; i++)
        host[i] = value(i, rank);
    a->copy(buffer, host, count * sizeof *host);
    a->sum(buffer, count, 2);
    a->copy(host, buffer, count * sizeof *host);
    for (size_t i = 0; i < count; i++) {
        float sum = 0;
        for (int r = 0; r < ranks; r++)
            sum += value(i, r);
        if (host[i] != sum * (float)ranks) {
            fprintf(stderr, "error: rank %d: sum %zu of %zu is %g, not %g\n", rank, i, count,
                    host[i], sum * (float)ranks);
            exit(1);
        }
    }
    // Zeros, which stay as they are, for the timing; sums of sums would be infinite soon.
    memset(host, 0, count * sizeof *host);
    a->copy(buffer, host, count * sizeof *host);
}

void measure(const struct all_reduce *a, int rank, int ranks) {
    size_t number = sizeof sizes / sizeof *sizes, most = sizes[number - 1].count;
    float *buffer = a->new_buffer(most), *host = malloc(most * sizeof *host);
    if (!buffer || !host) {
        fprintf(stderr, "error: out of memory\n");
        exit(1);
    }
    for (size_t s = 0; s < number; s++) {
        double times[MOST_BATCHES];
        check(a, buffer, host, sizes[s].count, rank, ranks);
        a->sum(buffer, sizes[s].count, sizes[s].times); // warms up
        for (int b = 0; b < sizes[s].batches; b++) {
            double start = seconds();
            a->sum(buffer, sizes[s].count, sizes[s].times);
            times[b] = (seconds() - start) / sizes[s].times;
        }
        qsort(times, sizes[s].batches, sizeof *times, compare);
        if (rank == 0)
            printf("%zu %.2f\n", sizes[s].count * sizeof(float), 1e6 * times[sizes[s].batches / 2]);
    }
    free(host);
}
