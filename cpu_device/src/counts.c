// Counts what the program asks the device to do (CPU_DEVICE_COUNTS).
#include "internal.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static atomic_long counts[CPU_COUNTED];

void cpu_count(enum cpu_counted what, long number) {
    atomic_fetch_add_explicit(&counts[what], number, memory_order_relaxed);
}

enum cpu_counted cpu_counted_as(const struct cpu_cost *cost) {
    int sets = cost->kind == CPU_KERNEL && cost->name && !strncmp(cost->name, "cudaMemset", 10);
    return cost->kind == CPU_COLLECTIVE       ? CPU_COLLECTIVES
           : sets                             ? CPU_MEMSETS
           : cost->kind == CPU_KERNEL         ? CPU_KERNELS
           : cost->kind >= CPU_COPY_TO_DEVICE ? CPU_COPIES
                                              : CPU_PRODUCTS;
}

// Appends a line for this process. One call writes it, so the lines of ranks do not mix.
static void write_counts(void) {
    FILE *file = fopen(getenv("CPU_DEVICE_COUNTS"), "ae");
    char line[256];
    int length = 0;
    for (int i = 0; i < CPU_COUNTED; i++)
        length += snprintf(line + length, sizeof line - (size_t)length, "%ld ", (long)counts[i]);
    length += snprintf(line + length, sizeof line - (size_t)length, "%.9f\n",
                       cpu_model ? cpu_moment() : 0.);
    if (!file || fwrite(line, 1, (size_t)length, file) < (size_t)length || fclose(file))
        perror("note: CPU_DEVICE_COUNTS");
}

void cpu_counts_init(void) {
    if (getenv("CPU_DEVICE_COUNTS"))
        atexit(write_counts);
}
