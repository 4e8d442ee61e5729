// Kernels for tests, as a program without nvcc brings them. They use memory as they say they do,
// and compute nothing.
#pragma once
#include "test.h"
#include <cpu_device.h>

// Reports name the callers of these functions.
const char *cpu_passing_on[] = {"kernels.h", "light.h", NULL};

static inline void run_nothing(void *arguments) {
}

static inline void launch_nothing(cudaStream_t stream) {
    OK(cpu_launch(stream, run_nothing, "", 1));
}

// x += y
static inline void add(float *x, const float *y, size_t count, cudaStream_t stream) {
    cpu_uses("add", y, count * sizeof *y, 0);
    cpu_uses("add", x, count * sizeof *x, 0);
    cpu_uses("add", x, count * sizeof *x, 1);
    launch_nothing(stream);
}
