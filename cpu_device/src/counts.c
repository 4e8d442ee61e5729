// Counts what the program asks the device to do (CPU_DEVICE_COUNTS).
#include "internal.h"

static FILE *file; // NULL: CPU_DEVICE_COUNTS is not set
static atomic_long counts[CPU_COUNTED];

void cpu_count(enum cpu_counted what, long number) {
    if (file)
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
    char line[256] = "";
    for (int i = 0; i < CPU_COUNTED; i++)
        cpu_add_text(line, sizeof line, "%ld ", (long)counts[i]);
    cpu_add_text(line, sizeof line, "%.9f\n", cpu_model ? cpu_moment() : 0.);
    if (fputs(line, file) < 0 || fclose(file))
        perror("note: CPU_DEVICE_COUNTS");
}

void cpu_counts_init(void) {
    const char *path = getenv("CPU_DEVICE_COUNTS");
    if (!path)
        return;
    if (!(file = fopen(path, "ae")))
        cpu_fail("CPU_DEVICE_COUNTS=%s: cannot open the file: %s", path, strerror(errno));
    atexit(write_counts);
}
