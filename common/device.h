// The device: errors of CUDA and cuBLAS end the program, and memory is counted by its use.
#pragma once
#include "common/error.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stddef.h>

// For the macros below. Success returns.
void cuda_check(cudaError_t error, const char *call, const char *file, int line);
void cublas_check(cublasStatus_t status, const char *call, const char *file, int line);
void device_alloc_check(cudaError_t error, const char *kind, size_t bytes, const char *file,
                        int line);

#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
#define CUBLAS_CHECK(call) cublas_check((call), #call, __FILE__, __LINE__)

// Allocates bytes of device memory for the pointer (of any type), counted under kind, a literal
// such as "gradients". Contents are undefined; the caller frees with cudaFree.
#define DEVICE_ALLOC(pointer, kind, bytes)                                                         \
    device_alloc_check(cudaMalloc((void **)&(pointer), (bytes)), (kind), (bytes), __FILE__,        \
                       __LINE__)

// Returns the bytes that DEVICE_ALLOC has given of a kind.
size_t device_bytes(const char *kind);

// Returns "a GPU" or "the CPU device".
const char *device_kind(void);

// Returns the end of an error line: on the CPU device, how to get that many devices, else "".
const char *more_devices(int wanted);

// Prints two lines of a banner: the current device, and the bytes that DEVICE_ALLOC gave by kind.
void print_device(void);
