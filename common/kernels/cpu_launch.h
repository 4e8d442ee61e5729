// How the kernels of the CPU device are launched. Each launch function stores its arguments in a
// struct, with the addresses that device threads use, and queues a function that loops over a part
// of the range.
#pragma once
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "cpu_device/include/cpu_device.h"

// The compiler makes a function twice, and the program takes the one with vectors of 256 bits where
// the processor has AVX2. No bit of a result differs, because AVX2 has no fused multiply-add. With
// ThreadSanitizer, there is one version: the choice would run before it has started.
#if defined __has_feature // clang
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif
#if defined __x86_64__ && !defined __SANITIZE_THREAD__
#define ALSO_AVX2 __attribute__((target_clones("avx2", "default")))
#else
#define ALSO_AVX2
#endif

// A thread gets at least GRAIN elements, which take some microseconds.
enum { GRAIN = 1 << 13 };

static inline size_t rows_per_grain(size_t cols) {
    return cols && cols < GRAIN ? GRAIN / cols : 1;
}

// Returns the address, for device threads, of rows of width bytes that begin pitch bytes apart. A
// GPU reports a wrong pointer later, as an illegal address; this function reports it at the launch.
void *cpu_kernel_view(const void *pointer, size_t width, size_t pitch, size_t rows,
                      const char *kernel, const char *array, int written);

// The address, for device threads, of an array that the kernel only reads, only writes, or changes.
#define READS(array, count) USES(array, (count) * sizeof *(array), 0)
#define WRITES(array, count) USES(array, (count) * sizeof *(array), 1)
#define USES(array, bytes, written)                                                                \
    cpu_kernel_view(array, bytes, bytes, 1, __func__, #array, written)
#define UPDATES(array, count) (READS(array, count), WRITES(array, count))

// Says how many instructions the threads of a GPU execute in all, which the modelled clock charges.
// They were counted in the machine code that nvcc 13.0 makes of */kernels/*.cu for sm_90 (cuobjdump
// -sass), on the way that threads take with aligned arrays. A loop that the compiler unrolled
// counts once for each of its elements. Kernels without COMPUTES execute at most 3 for each byte
// that they move, so memory limits them on every GPU.
#define COMPUTES(instructions) cpu_executes(instructions)

// lanes[i] = lanes[i] + lanes[i + left] + ... for i < left, in the same order as in kernels.cu.
void fold(double *lanes, size_t count, size_t left);

// Queues a kernel for one thread. As in gpu_launch.h, an error that an earlier call has left in
// this thread ends the program here.
#define LAUNCH_ONE(stream, run, arguments)                                                         \
    do {                                                                                           \
        cpu_launch(stream, run, &(arguments), sizeof(arguments));                                  \
        CUDA_CHECK(cudaGetLastError());                                                            \
    } while (0)
// The same for a kernel over the range 0..count.
#define LAUNCH(stream, run, arguments, count, grain)                                               \
    do {                                                                                           \
        cpu_launch_range(stream, run, &(arguments), sizeof(arguments), count, grain);              \
        CUDA_CHECK(cudaGetLastError());                                                            \
    } while (0)

// common/kernels/formulas.h explains FORMULA. Here a thread computes the elements from..to.
#define DEVICE_FUNCTION static inline
#define FORMULA(kernel)                                                                            \
    DEVICE_FUNCTION void kernel##_at(struct kernel a, size_t i);                                   \
    ALSO_AVX2 static void run_##kernel(void *arguments, size_t from, size_t to) {                  \
        struct kernel a = *(struct kernel *)arguments;                                             \
        for (size_t i = from; i < to; i++)                                                         \
            kernel##_at(a, i);                                                                     \
    }                                                                                              \
    DEVICE_FUNCTION void kernel##_at(struct kernel a, size_t i)
#define LAUNCH_FORMULA(kernel, a, count, stream) LAUNCH(stream, run_##kernel, a, count, GRAIN)
