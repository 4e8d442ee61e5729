#include "common/kernels/cpu_launch.h"
#include <stdlib.h>
#include <string.h>

// The instructions that a thread of a GPU executes for one element: each, and part for each of its
// parts. The model of a GPU charges the instructions of these kernels. The others execute at most 3
// for each byte that they move, so that memory limits them on every modelled GPU.
//
// They were counted in the machine code that nvcc 13.0 makes of */kernels/*.cu for sm_90
// (cuobjdump -sass). A loop that the compiler unrolled counts once for each of its elements. A row
// of a window counts as a part of its elements, 3 in patches_to_image and 2 in max_pool. Those of
// value_kernels.cu and attention_kernels.cu were counted in their PTX, which has about as many.
static const struct {
    const char *kernel;
    double each, part;
} instructions[] = {
    {"fill_uniform", 39, 0},
    {"gather_batch", 57, 0},
    {"add_bias", 20, 0},
    {"drop_values", 55, 0},
    {"sum_rows", 50, 6},
    {"softmax_cross_entropy", 255, 53},
    {"to_bfloat16", 18, 0},
    {"image_to_patches", 50, 0},
    {"patches_to_image", 67, 25},
    {"max_pool", 59, 27},
    {"max_pool_backward", 59, 27},
    {"mean_pool", 85, 6},
    {"mean_pool_backward", 34, 0},
    {"augment_images", 113, 0},
    {"group_norm", 62, 0},
    {"group_norm_backward", 65, 0},
    {"multiply_by_normalised", 38, 0},
    {"fill_normal", 46, 0},
    {"look_up_backward", 60, 0.25},
    {"add_value_bias", 17, 0},
    {"bias_gelu", 33, 0},
    {"bias_gelu_backward", 44, 0},
    {"sum_columns", 16, 0},
    {"layer_norm", 32, 0},
    {"layer_norm_backward", 80, 0},
    {"attend", 22, 60},
    {"attend_backward", 45, 240},
};

void cpu_kernel_computes(const char *kernel, size_t elements, size_t parts) {
    size_t i = 0, count = sizeof instructions / sizeof *instructions;
    while (i < count && strcmp(instructions[i].kernel, kernel) != 0)
        i++;
    if (i == count)
        fail("%s calls COMPUTES, so the table in common/kernels/cpu_launch.c must have it", kernel);
    cpu_executes((double)elements * (instructions[i].each + (double)parts * instructions[i].part));
}

#if defined __AVX2__ // tools/build.mk has found it on the machine that built the kernels
__attribute__((constructor)) static void check_processor(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2"))
        fail("this processor has no AVX2, and the program was built on one that has it: run make "
             "again on this machine");
}
#endif

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

int device_computes(void) {
    const char *compute = getenv("CPU_DEVICE_COMPUTE");
    return !compute || strcmp(compute, "0") != 0;
}

// A report of the checker also names the host and the process, as the other errors of a program do.
void cpu_end_program(const char *message) {
    fail("%s", message);
}

// Such a report names the caller of a function of these folders.
const char *cpu_passing_on[] = {"common/", "zoo/", "watch/", NULL};
