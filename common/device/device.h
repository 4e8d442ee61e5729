// The device, which is a GPU or the CPU device. If a call of CUDA or cuBLAS fails, CUDA_CHECK and
// CUBLAS_CHECK end the program. DEVICE_ALLOC counts the allocated bytes by their use.
#pragma once
#include "common/base/error.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// The macros below call these functions, which return if there is no error.
void cuda_check(cudaError_t error, const char *call, const char *file, int line);
void cublas_check(cublasStatus_t status, const char *call, const char *file, int line);
void device_alloc_check(cudaError_t error, const char *kind, size_t bytes, const char *file,
                        int line);

#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
#define CUBLAS_CHECK(call) cublas_check((call), #call, __FILE__, __LINE__)

// Sets the pointer (of any type) to new device memory of this size, and counts it under kind, a
// string literal such as "gradients". The contents are undefined. The caller frees it with
// cudaFree.
#define DEVICE_ALLOC(pointer, kind, bytes)                                                         \
    device_alloc_check(cudaMalloc((void **)&(pointer), (bytes)), (kind), (bytes), __FILE__,        \
                       __LINE__)

// Returns the number of bytes of this kind that DEVICE_ALLOC has allocated.
size_t device_bytes(const char *kind);

// Returns the CRC-32 of an array in device memory, after the work that is queued on the stream. It
// copies the array piece by piece, because the host may not have room for all of it. Returns 0 if
// the device leaves out all arithmetic.
uint32_t device_checksum(const float *values, size_t count, cudaStream_t stream);

// Returns "a GPU" or "the CPU device".
const char *device_kind(void);

// Waits until the stream is empty. Returns the seconds since the first call, by the device's clock:
// times of a model if the CPU device has one (CPU_DEVICE_MODEL).
double device_seconds(cudaStream_t stream);

// Returns 1 if the times of the device are modelled.
int device_is_modelled(void);

// Returns 0 if the device leaves out all arithmetic, to time a program with a model
// (CPU_DEVICE_COMPUTE=0). It does not set up the device.
int device_computes(void);

// Prints the banner's lines about the current device and the allocated bytes of each kind.
void print_device(void);
