// How the kernels of the CPU device are launched. Each launch function stores its arguments in a
// struct, with the addresses that device threads use, and queues a function that loops over a part
// of the range.
#pragma once
#include "common/device.h"
#include "common/kernels.h"
#include "cpu_device/internal.h"

// A thread gets at least GRAIN elements, which take some microseconds.
enum { GRAIN = 1 << 13 };

static inline size_t rows_per_grain(size_t cols) {
    return cols < GRAIN ? GRAIN / cols : 1;
}

// Returns the address for device threads. A GPU reports a wrong pointer later, as an illegal
// address; this function reports it at the launch.
void *cpu_kernel_view(const void *pointer, size_t bytes, const char *kernel, const char *array,
                      int written);

// The address, for device threads, of an array that the kernel only reads, only writes, or changes.
#define READS(array, count) cpu_kernel_view(array, (count) * sizeof *(array), __func__, #array, 0)
#define WRITES(array, count) cpu_kernel_view(array, (count) * sizeof *(array), __func__, #array, 1)
#define UPDATES(array, count) (READS(array, count), WRITES(array, count))
#define LAUNCH(stream, run, arguments, count, grain)                                               \
    CUDA_CHECK(cpu_launch_range(stream, run, &(arguments), sizeof(arguments), count, grain))
