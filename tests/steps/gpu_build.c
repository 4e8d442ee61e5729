// Runs programs that are built for a GPU on the CPU device: this file has the functions that
// nvcc's code calls. A launch finds the version of the kernel that clang has built for the host
// (tests/unit/host_cuda.h), and queues it on the stream. The program and this file are compiled
// with NVIDIA's headers.
#include "cpu_device/src/internal.h"
#include <cuda_runtime.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The linker joins the tables of all files into one, between these two symbols.
struct host_kernel {
    const char *name; // mangled as that of a static function: _ZL11fill_kernelPfmf
    void (*run)(unsigned blocks, unsigned x, unsigned y, void **arguments);
    const size_t *bytes; // of each argument
    size_t arguments;
};
extern const struct host_kernel __start_host_kernels[], __stop_host_kernels[];

static struct {
    const void *stub; // the function of the host that launches the kernel
    const char *name; // _Z11fill_kernelPfmf
} registered[256];
static int count;

void **__cudaRegisterFatBinary(void *binary) {
    return binary;
}

void __cudaRegisterFatBinaryEnd(void **module) {
    (void)module;
}

void __cudaUnregisterFatBinary(void **module) {
    (void)module;
}

void __cudaRegisterFunction(void **module, const char *stub, char *function, const char *name) {
    (void)module, (void)function; // as well as the arguments that are not declared here
    registered[count].stub = stub;
    registered[count++].name = name;
}

void __cudaRegisterVar(void **module, char *variable) {
    (void)module, (void)variable; // as well as the arguments that are not declared here
}

// Adds the kernel to the list of those that have run.
static void note_kernel(const char *name) {
    const char *path = getenv("KERNELS_RUN");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (file) {
        fprintf(file, "%s\n", name);
        fclose(file);
    }
}

// nvcc's code calls this function before the first launch of a kernel. Fails as CUDA does if the
// kernel is not known.
cudaError_t __cudaGetKernel(cudaKernel_t *found, const void *stub) {
    int i = 0;
    while (i < count && registered[i].stub != stub)
        i++;
    if (i == count)
        return cpu_error(cudaErrorInvalidDeviceFunction);
    for (const struct host_kernel *k = __start_host_kernels; k < __stop_host_kernels; k++)
        if (!strncmp(k->name, "_ZL", 3) && !strcmp(k->name + 3, registered[i].name + 2)) {
            *found = (cudaKernel_t)k;
            note_kernel(registered[i].name);
            return cudaSuccess;
        }
    fprintf(stderr, "error: no kernel %s is built for the host\n", registered[i].name);
    exit(1);
}

static _Thread_local struct {
    dim3 blocks, threads;
    size_t shared;
    cudaStream_t stream;
} pushed;

unsigned __cudaPushCallConfiguration(dim3 blocks, dim3 threads, size_t shared,
                                     cudaStream_t stream) {
    pushed.blocks = blocks;
    pushed.threads = threads;
    pushed.shared = shared;
    pushed.stream = stream;
    return 0;
}

cudaError_t __cudaPopCallConfiguration(dim3 *blocks, dim3 *threads, size_t *shared, void *stream) {
    *blocks = pushed.blocks;
    *threads = pushed.threads;
    *shared = pushed.shared;
    *(cudaStream_t *)stream = pushed.stream;
    return cudaSuccess;
}

struct launch {
    const struct host_kernel *kernel;
    dim3 blocks, threads;
    uint64_t arguments[]; // each from the begin of a word
};

static size_t words(size_t bytes) {
    return (bytes + sizeof(uint64_t) - 1) / sizeof(uint64_t);
}

static void run_launch(void *arguments) {
    struct launch *l = *(struct launch **)arguments;
    void *pointers[l->kernel->arguments];
    uint64_t *next = l->arguments;
    for (size_t i = 0; i < l->kernel->arguments; i++) {
        pointers[i] = next;
        next += words(l->kernel->bytes[i]);
    }
    l->kernel->run(l->blocks.x, l->threads.x, l->threads.y, pointers);
    free(l);
}

cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 blocks, dim3 threads, void **arguments,
                               size_t shared, cudaStream_t stream) {
    (void)shared; // no kernel of the course uses dynamic shared memory
    const struct host_kernel *k = (const struct host_kernel *)kernel;
    unsigned in_block = threads.x * threads.y * threads.z;
    if (blocks.x == 0 || blocks.x > INT32_MAX || in_block == 0 || in_block > 1024)
        return cpu_error(cudaErrorInvalidConfiguration);
    size_t all = 0;
    for (size_t i = 0; i < k->arguments; i++)
        all += words(k->bytes[i]);
    struct launch *l = calloc(1, sizeof *l + all * sizeof *l->arguments);
    l->kernel = k;
    l->blocks = blocks;
    l->threads = threads;
    uint64_t *next = l->arguments;
    for (size_t i = 0; i < k->arguments; i++) {
        memcpy(next, arguments[i], k->bytes[i]);
        next += words(k->bytes[i]);
    }
    cudaError_t error = cpu_launch(stream, run_launch, &l, sizeof l);
    if (error)
        free(l);
    return error;
}

// NVIDIA's struct cudaDeviceProp is longer than that of the CPU device. Both begin with the name.
cudaError_t __real_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device);
cudaError_t __wrap_cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device) {
    size_t left;
    cudaError_t error = __real_cudaGetDeviceProperties(properties, device);
    return error ? error : cudaMemGetInfo(&left, &properties->totalGlobalMem);
}
