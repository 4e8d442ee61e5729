// Errors that end the program: one line on stderr that says first what is wrong, then what to do,
// for the errors people really meet, and last which call failed and where it stands; then exit code
// 1. And device memory, as most errors are about it.
#pragma once
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <string.h>

enum { WHY_SIZE = 512 };

// Rank named in error lines; below 0 (the default) when the program is a single process.
extern int error_rank;

// Where it is set, fail() calls it first, once: it may know what is behind the failure, and end the
// program.
extern void (*error_hook)(void);

// "error (node1, rank 2): " and the message.
__attribute__((noreturn, format(printf, 1, 2))) void fail(const char *format, ...);

// Puts the sentence that says why something did not work into why and returns -1.
__attribute__((format(printf, 2, 3))) int refuse(char why[WHY_SIZE], const char *format, ...);

// For the macros below. Success returns.
void cuda_check(cudaError_t error, const char *call, const char *file, int line);
void cublas_check(cublasStatus_t status, const char *call, const char *file, int line);
void device_alloc_check(cudaError_t error, const char *kind, size_t bytes, const char *file,
                        int line);

// A call without its arguments, which would hide the cause, for "%.*s". call is a string.
#define CALL_NAME(call) (int)strcspn(call, "("), call

#define CUDA_CHECK(call) cuda_check((call), #call, __FILE__, __LINE__)
#define CUBLAS_CHECK(call) cublas_check((call), #call, __FILE__, __LINE__)

// For programs that include <nccl.h>.
#define NCCL_CHECK(call)                                                                           \
    do {                                                                                           \
        ncclResult_t nccl_result = (call);                                                         \
        if (nccl_result != ncclSuccess)                                                            \
            fail("%s: %s (%.*s at %s:%d)", ncclGetErrorString(nccl_result),                        \
                 ncclGetLastError(NULL), CALL_NAME(#call), __FILE__, __LINE__);                    \
    } while (0)

// Allocates bytes of device memory for the pointer (of any type), counted under kind, a literal
// such as "gradients". Contents are undefined; the caller frees with cudaFree.
#define DEVICE_ALLOC(pointer, kind, bytes)                                                         \
    device_alloc_check(cudaMalloc((void **)&(pointer), (bytes)), (kind), (bytes), __FILE__,        \
                       __LINE__)

// On the CPU device the end of an error line that tells how to have so many devices, else "".
const char *more_devices(int wanted);

// Bytes that DEVICE_ALLOC has given of a kind.
size_t device_bytes(const char *kind);

// Two lines of a banner: the current device, and the bytes that DEVICE_ALLOC gave by kind.
void print_device(void);
