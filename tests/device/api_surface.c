// Every function, enumerator and struct field of the CPU device's headers, used so that the
// compiler accepts it only if the header it reads (ours or NVIDIA's, see parity.bats) declares just
// the same.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <nccl.h>

#define VALUE(enumerator, value) _Static_assert((long)(enumerator) == (value), #enumerator)

VALUE(cudaSuccess, 0);
VALUE(cudaErrorInvalidValue, 1);
VALUE(cudaErrorMemoryAllocation, 2);
VALUE(cudaErrorInitializationError, 3);
VALUE(cudaErrorInvalidMemcpyDirection, 21);
VALUE(cudaErrorInsufficientDriver, 35);
VALUE(cudaErrorNoDevice, 100);
VALUE(cudaErrorInvalidDevice, 101);
VALUE(cudaErrorInvalidResourceHandle, 400);
VALUE(cudaErrorNotReady, 600);
VALUE(cudaErrorIllegalAddress, 700);
VALUE(cudaErrorLaunchFailure, 719);
VALUE(cudaErrorNotSupported, 801);
VALUE(cudaErrorUnknown, 999);
VALUE(cudaMemcpyHostToHost, 0);
VALUE(cudaMemcpyHostToDevice, 1);
VALUE(cudaMemcpyDeviceToHost, 2);
VALUE(cudaMemcpyDeviceToDevice, 3);
VALUE(cudaMemcpyDefault, 4);
VALUE(cudaHostAllocDefault, 0);
VALUE(cudaHostAllocPortable, 1);
VALUE(cudaHostAllocMapped, 2);
VALUE(cudaHostAllocWriteCombined, 4);
VALUE(cudaDevAttrMultiProcessorCount, 16);
VALUE(cudaDevAttrPciBusId, 33);
VALUE(cudaDevAttrPciDeviceId, 34);
VALUE(cudaDevAttrPciDomainId, 50);
VALUE(cudaDevAttrComputeCapabilityMajor, 75);
VALUE(cudaDevAttrComputeCapabilityMinor, 76);
VALUE(cudaStreamDefault, 0);
VALUE(cudaStreamNonBlocking, 1);
VALUE(cudaEventDefault, 0);
VALUE(cudaEventBlockingSync, 1);
VALUE(cudaEventDisableTiming, 2);
VALUE(cudaEventWaitDefault, 0);
VALUE(CUBLAS_STATUS_SUCCESS, 0);
VALUE(CUBLAS_STATUS_NOT_INITIALIZED, 1);
VALUE(CUBLAS_STATUS_ALLOC_FAILED, 3);
VALUE(CUBLAS_STATUS_INVALID_VALUE, 7);
VALUE(CUBLAS_STATUS_ARCH_MISMATCH, 8);
VALUE(CUBLAS_STATUS_MAPPING_ERROR, 11);
VALUE(CUBLAS_STATUS_EXECUTION_FAILED, 13);
VALUE(CUBLAS_STATUS_INTERNAL_ERROR, 14);
VALUE(CUBLAS_STATUS_NOT_SUPPORTED, 15);
VALUE(CUBLAS_OP_N, 0);
VALUE(CUBLAS_OP_T, 1);
VALUE(CUBLAS_DEFAULT_MATH, 0);
VALUE(CUBLAS_PEDANTIC_MATH, 2);
VALUE(CUBLAS_TF32_TENSOR_OP_MATH, 3);
VALUE(CUDA_R_32F, 0);
VALUE(CUDA_R_16F, 2);
VALUE(CUDA_R_16BF, 14);
VALUE(CUBLAS_COMPUTE_32F, 68);
VALUE(CUBLAS_COMPUTE_32F_FAST_TF32, 77);
VALUE(CUBLAS_GEMM_DEFAULT, -1);
VALUE(ncclSuccess, 0);
VALUE(ncclUnhandledCudaError, 1);
VALUE(ncclSystemError, 2);
VALUE(ncclInternalError, 3);
VALUE(ncclInvalidArgument, 4);
VALUE(ncclInvalidUsage, 5);
VALUE(ncclRemoteError, 6);
VALUE(ncclInProgress, 7);
VALUE(ncclNumResults, 8);
VALUE(ncclInt8, 0);
VALUE(ncclChar, 0);
VALUE(ncclUint8, 1);
VALUE(ncclInt32, 2);
VALUE(ncclInt, 2);
VALUE(ncclUint32, 3);
VALUE(ncclInt64, 4);
VALUE(ncclUint64, 5);
VALUE(ncclFloat16, 6);
VALUE(ncclHalf, 6);
VALUE(ncclFloat32, 7);
VALUE(ncclFloat, 7);
VALUE(ncclFloat64, 8);
VALUE(ncclDouble, 8);
VALUE(ncclBfloat16, 9);
VALUE(ncclSum, 0);
VALUE(ncclProd, 1);
VALUE(ncclMax, 2);
VALUE(ncclMin, 3);
VALUE(ncclAvg, 4);
VALUE(ncclNumOps, 5);
VALUE(ncclMaxRedOp, 0x7fffffff);
VALUE(ncclScalarDevice, 0);
VALUE(ncclScalarHostImmediate, 1);
VALUE(NCCL_MAJOR, 2);
VALUE(NCCL_UNIQUE_ID_BYTES, 128);
VALUE(NCCL_SPLIT_NOCOLOR, -1);
VALUE(NCCL_WIN_DEFAULT, 0);
VALUE(NCCL_WIN_COLL_SYMMETRIC, 1);
VALUE(NCCL_WIN_REQUIRED_ALIGNMENT, 4096);
VALUE(NCCL_CONFIG_UNDEF_INT, INT_MIN);

#define FIELD(type, name)                                                                          \
    _Static_assert(_Generic(&((struct cudaDeviceProp *)0)->name, type * : 1), #name)
FIELD(size_t, totalGlobalMem);
FIELD(int, major);
FIELD(int, minor);
FIELD(int, multiProcessorCount);
FIELD(int, pciBusID);
FIELD(int, pciDeviceID);
FIELD(int, pciDomainID);
_Static_assert(_Generic(&((struct cudaDeviceProp *)0)->name, char (*)[256] : 1), "name");

#define CONFIG(type, name) _Static_assert(_Generic(&((ncclConfig_t *)0)->name, type * : 1), #name)
CONFIG(size_t, size);
CONFIG(unsigned int, magic);
CONFIG(unsigned int, version);
CONFIG(int, blocking);
CONFIG(int, cgaClusterSize);
CONFIG(int, minCTAs);
CONFIG(int, maxCTAs);
CONFIG(const char *, netName);
CONFIG(int, splitShare);
CONFIG(int, trafficClass);
CONFIG(const char *, commName);
CONFIG(int, collnetEnable);
CONFIG(int, CTAPolicy);
CONFIG(int, shrinkShare);
CONFIG(int, nvlsCTAs);
CONFIG(int, nChannelsPerNetPeer);
CONFIG(int, nvlinkCentricSched);
_Static_assert(sizeof(ncclUniqueId) == NCCL_UNIQUE_ID_BYTES, "ncclUniqueId");

// nccl.h brings these, too.
_Static_assert(_Generic(&((__half_raw *)0)->x, unsigned short * : 1), "__half_raw");
_Static_assert(_Generic(&((__nv_bfloat16_raw *)0)->x, unsigned short * : 1), "__nv_bfloat16_raw");

#define FUNCTION(name, result, ...)                                                                \
    _Static_assert(_Generic(&name, result(*)(__VA_ARGS__) : 1), #name " is declared otherwise")

FUNCTION(cudaGetErrorName, const char *, cudaError_t);
FUNCTION(cudaGetErrorString, const char *, cudaError_t);
FUNCTION(cudaGetLastError, cudaError_t, void);
FUNCTION(cudaPeekAtLastError, cudaError_t, void);
FUNCTION(cudaGetDeviceCount, cudaError_t, int *);
FUNCTION(cudaSetDevice, cudaError_t, int);
FUNCTION(cudaGetDevice, cudaError_t, int *);
FUNCTION(cudaGetDeviceProperties, cudaError_t, struct cudaDeviceProp *, int);
FUNCTION(cudaDeviceGetPCIBusId, cudaError_t, char *, int, int);
FUNCTION(cudaDeviceSynchronize, cudaError_t, void);
FUNCTION(cudaDeviceGetAttribute, cudaError_t, int *, enum cudaDeviceAttr, int);
FUNCTION(cudaDeviceReset, cudaError_t, void);
FUNCTION(cudaDriverGetVersion, cudaError_t, int *);
FUNCTION(cudaRuntimeGetVersion, cudaError_t, int *);
FUNCTION(cudaMalloc, cudaError_t, void **, size_t);
FUNCTION(cudaFree, cudaError_t, void *);
FUNCTION(cudaMallocHost, cudaError_t, void **, size_t);
FUNCTION(cudaFreeHost, cudaError_t, void *);
FUNCTION(cudaHostAlloc, cudaError_t, void **, size_t, unsigned int);
FUNCTION(cudaMemGetInfo, cudaError_t, size_t *, size_t *);
FUNCTION(cudaMemcpy, cudaError_t, void *, const void *, size_t, enum cudaMemcpyKind);
FUNCTION(cudaMemcpyAsync, cudaError_t, void *, const void *, size_t, enum cudaMemcpyKind,
         cudaStream_t);
FUNCTION(cudaMemset, cudaError_t, void *, int, size_t);
FUNCTION(cudaMemsetAsync, cudaError_t, void *, int, size_t, cudaStream_t);
FUNCTION(cudaStreamCreate, cudaError_t, cudaStream_t *);
FUNCTION(cudaStreamCreateWithFlags, cudaError_t, cudaStream_t *, unsigned int);
FUNCTION(cudaStreamCreateWithPriority, cudaError_t, cudaStream_t *, unsigned int, int);
FUNCTION(cudaDeviceGetStreamPriorityRange, cudaError_t, int *, int *);
FUNCTION(cudaStreamDestroy, cudaError_t, cudaStream_t);
FUNCTION(cudaStreamSynchronize, cudaError_t, cudaStream_t);
FUNCTION(cudaStreamQuery, cudaError_t, cudaStream_t);
FUNCTION(cudaStreamWaitEvent, cudaError_t, cudaStream_t, cudaEvent_t, unsigned int);
FUNCTION(cudaEventCreate, cudaError_t, cudaEvent_t *);
FUNCTION(cudaEventCreateWithFlags, cudaError_t, cudaEvent_t *, unsigned int);
FUNCTION(cudaEventDestroy, cudaError_t, cudaEvent_t);
FUNCTION(cudaEventRecord, cudaError_t, cudaEvent_t, cudaStream_t);
FUNCTION(cudaEventSynchronize, cudaError_t, cudaEvent_t);
FUNCTION(cudaEventQuery, cudaError_t, cudaEvent_t);
FUNCTION(cudaEventElapsedTime, cudaError_t, float *, cudaEvent_t, cudaEvent_t);
FUNCTION(cublasGetStatusName, const char *, cublasStatus_t);
FUNCTION(cublasGetStatusString, const char *, cublasStatus_t);
FUNCTION(cublasCreate, cublasStatus_t, cublasHandle_t *);
FUNCTION(cublasDestroy, cublasStatus_t, cublasHandle_t);
FUNCTION(cublasGetVersion, cublasStatus_t, cublasHandle_t, int *);
FUNCTION(cublasSetStream, cublasStatus_t, cublasHandle_t, cudaStream_t);
FUNCTION(cublasGetStream, cublasStatus_t, cublasHandle_t, cudaStream_t *);
FUNCTION(cublasSetMathMode, cublasStatus_t, cublasHandle_t, cublasMath_t);
FUNCTION(cublasSgemm, cublasStatus_t, cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
         int, int, const float *, const float *, int, const float *, int, const float *, float *,
         int);
FUNCTION(cublasSgemv, cublasStatus_t, cublasHandle_t, cublasOperation_t, int, int, const float *,
         const float *, int, const float *, int, const float *, float *, int);
FUNCTION(cublasGemmEx, cublasStatus_t, cublasHandle_t, cublasOperation_t, cublasOperation_t, int,
         int, int, const void *, const void *, cudaDataType, int, const void *, cudaDataType, int,
         const void *, void *, cudaDataType, int, cublasComputeType_t, cublasGemmAlgo_t);
FUNCTION(ncclGetVersion, ncclResult_t, int *);
FUNCTION(ncclGetErrorString, const char *, ncclResult_t);
FUNCTION(ncclGetLastError, const char *, ncclComm_t);
FUNCTION(ncclGetUniqueId, ncclResult_t, ncclUniqueId *);
FUNCTION(ncclCommInitRank, ncclResult_t, ncclComm_t *, int, ncclUniqueId, int);
FUNCTION(ncclCommInitRankConfig, ncclResult_t, ncclComm_t *, int, ncclUniqueId, int,
         ncclConfig_t *);
FUNCTION(ncclCommInitAll, ncclResult_t, ncclComm_t *, int, const int *);
FUNCTION(ncclCommSplit, ncclResult_t, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
FUNCTION(ncclCommFinalize, ncclResult_t, ncclComm_t);
FUNCTION(ncclCommDestroy, ncclResult_t, ncclComm_t);
FUNCTION(ncclCommAbort, ncclResult_t, ncclComm_t);
FUNCTION(ncclCommGetAsyncError, ncclResult_t, ncclComm_t, ncclResult_t *);
FUNCTION(ncclCommCount, ncclResult_t, ncclComm_t, int *);
FUNCTION(ncclCommCuDevice, ncclResult_t, ncclComm_t, int *);
FUNCTION(ncclCommUserRank, ncclResult_t, ncclComm_t, int *);
FUNCTION(ncclMemAlloc, ncclResult_t, void **, size_t);
FUNCTION(ncclMemFree, ncclResult_t, void *);
FUNCTION(ncclCommRegister, ncclResult_t, ncclComm_t, void *, size_t, void **);
FUNCTION(ncclCommDeregister, ncclResult_t, ncclComm_t, void *);
FUNCTION(ncclCommWindowRegister, ncclResult_t, ncclComm_t, void *, size_t, ncclWindow_t *, int);
FUNCTION(ncclCommWindowDeregister, ncclResult_t, ncclComm_t, ncclWindow_t);
FUNCTION(ncclRedOpCreatePreMulSum, ncclResult_t, ncclRedOp_t *, void *, ncclDataType_t,
         ncclScalarResidence_t, ncclComm_t);
FUNCTION(ncclRedOpDestroy, ncclResult_t, ncclRedOp_t, ncclComm_t);
FUNCTION(ncclAllReduce, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
         ncclComm_t, cudaStream_t);
FUNCTION(ncclBroadcast, ncclResult_t, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclBcast, ncclResult_t, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
FUNCTION(ncclReduce, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,
         ncclComm_t, cudaStream_t);
FUNCTION(ncclAllGather, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclReduceScatter, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t,
         ncclComm_t, cudaStream_t);
FUNCTION(ncclAlltoAll, ncclResult_t, const void *, void *, size_t, ncclDataType_t, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclGather, ncclResult_t, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclScatter, ncclResult_t, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclSend, ncclResult_t, const void *, size_t, ncclDataType_t, int, ncclComm_t,
         cudaStream_t);
FUNCTION(ncclRecv, ncclResult_t, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
FUNCTION(ncclGroupStart, ncclResult_t, void);
FUNCTION(ncclGroupEnd, ncclResult_t, void);
