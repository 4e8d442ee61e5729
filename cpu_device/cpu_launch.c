#include "cpu_device/cpu_launch.h"
#include "cpu_device/record.h"

void *cpu_kernel_view(const void *pointer, size_t bytes, const char *kernel, const char *array,
                      int written) {
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
    cpu_uses(kernel, pointer, bytes, written);
    return memory;
}
