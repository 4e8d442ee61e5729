// Prints the name and the sentence of every error code of the CPU device, and of two that nobody
// has. parity.bats compares what this says when built against ours and against NVIDIA's libraries.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>
#include <stdio.h>

int main(void) {
    const int errors[] = {
        cudaSuccess,
        cudaErrorInvalidValue,
        cudaErrorMemoryAllocation,
        cudaErrorInitializationError,
        cudaErrorInvalidMemcpyDirection,
        cudaErrorInsufficientDriver,
        cudaErrorNoDevice,
        cudaErrorInvalidDevice,
        cudaErrorInvalidResourceHandle,
        cudaErrorNotReady,
        cudaErrorIllegalAddress,
        cudaErrorLaunchFailure,
        cudaErrorNotSupported,
        cudaErrorUnknown,
        12345,
    };
    const int statuses[] = {
        CUBLAS_STATUS_SUCCESS,          CUBLAS_STATUS_NOT_INITIALIZED,
        CUBLAS_STATUS_ALLOC_FAILED,     CUBLAS_STATUS_INVALID_VALUE,
        CUBLAS_STATUS_ARCH_MISMATCH,    CUBLAS_STATUS_MAPPING_ERROR,
        CUBLAS_STATUS_EXECUTION_FAILED, CUBLAS_STATUS_INTERNAL_ERROR,
        CUBLAS_STATUS_NOT_SUPPORTED,    12345,
    };
    const int results[] = {
        ncclSuccess,       ncclUnhandledCudaError, ncclSystemError,
        ncclInternalError, ncclInvalidArgument,    ncclInvalidUsage,
        ncclRemoteError,   ncclInProgress,         12345,
    };
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
        printf("%d %s: %s\n", errors[i], cudaGetErrorName((cudaError_t)errors[i]),
               cudaGetErrorString((cudaError_t)errors[i]));
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        printf("%d %s: %s\n", statuses[i], cublasGetStatusName((cublasStatus_t)statuses[i]),
               cublasGetStatusString((cublasStatus_t)statuses[i]));
    for (size_t i = 0; i < sizeof results / sizeof *results; i++)
        printf("%d: %s\n", results[i], ncclGetErrorString((ncclResult_t)results[i]));
    return 0;
}
