#include "common/kernels/cpu_launch.h"

void *cpu_kernel_view(const void *pointer, size_t width, size_t pitch, size_t rows,
                      const char *kernel, const char *array, int written) {
    size_t bytes = width && rows ? (rows - 1) * pitch + width : 0;
    CUDA_CHECK(cpu_enter());
    if (bytes == 0) // nothing is used, as on a GPU, for example of an empty batch
        return (void *)pointer;
    void *memory = cpu_view(pointer, bytes);
    if (!memory && cpu_is_device_pointer(pointer))
        fail("%s: %s: %zu bytes at %p are not all inside one allocation of device memory", kernel,
             array, bytes, pointer);
    if (!memory)
        fail("%s: %s: %p is not device memory; kernels use memory from cudaMalloc only, so copy "
             "the data there with cudaMemcpy first",
             kernel, array, pointer);
    int device = cpu_device_of(pointer), current;
    CUDA_CHECK(cudaGetDevice(&current));
    if (device >= 0 && device != current)
        fail("%s: %s is memory of device %d, and the kernel runs on device %d; call cudaSetDevice "
             "before cudaMalloc, or copy the data",
             kernel, array, device, current);
    cpu_uses_rows(kernel, pointer, width, pitch, rows, written);
    return memory;
}

// A report of the checker also names the host and the process, as the other errors of a program do.
void cpu_end_program(const char *message) {
    fail("%s", message);
}

// Such a report names the caller of a function of these folders.
const char *cpu_passing_on[] = {"common/", "zoo/", "watch/", NULL};
