// The NCCL API of the CPU device. It has the functions that the course uses, with NVIDIA's names,
// values and behaviour, and connects real processes. A program that compiles with this header
// compiles with that of NCCL 2.28 to 2.30, too. The comments describe only differences from NCCL's
// manual.
#pragma once
#include <cuda_runtime.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_MAJOR 2
#define NCCL_MINOR 30
#define NCCL_PATCH 7
#define NCCL_VERSION_CODE 23007
#define NCCL_VERSION(X, Y, Z)                                                                      \
    (((X) <= 2 && (Y) <= 8) ? (X)*1000 + (Y)*100 + (Z) : (X)*10000 + (Y)*100 + (Z))

typedef struct ncclComm *ncclComm_t;

#define NCCL_UNIQUE_ID_BYTES 128
typedef struct {
    char internal[NCCL_UNIQUE_ID_BYTES];
} ncclUniqueId;

typedef enum {
    ncclSuccess = 0,
    ncclUnhandledCudaError = 1,
    ncclSystemError = 2,
    ncclInternalError = 3,
    ncclInvalidArgument = 4,
    ncclInvalidUsage = 5,
    ncclRemoteError = 6,
    ncclInProgress = 7,
    ncclTimeout = 8, // since NCCL 2.30; no call returns it
    ncclNumResults = 9
} ncclResult_t;

typedef enum {
    ncclSum = 0,
    ncclProd = 1,
    ncclMax = 2,
    ncclMin = 3,
    ncclAvg = 4,
    ncclNumOps = 5,
    ncclMaxRedOp = 0x7fffffff
} ncclRedOp_t;

// ncclFloat16 is not supported here, and NCCL's 8-bit floats are not declared.
typedef enum {
    ncclInt8 = 0,
    ncclChar = 0,
    ncclUint8 = 1,
    ncclInt32 = 2,
    ncclInt = 2,
    ncclUint32 = 3,
    ncclInt64 = 4,
    ncclUint64 = 5,
    ncclFloat16 = 6,
    ncclHalf = 6,
    ncclFloat32 = 7,
    ncclFloat = 7,
    ncclFloat64 = 8,
    ncclDouble = 8,
    ncclBfloat16 = 9
} ncclDataType_t;

#define NCCL_SPLIT_NOCOLOR -1

typedef struct ncclConfig_v22800 ncclConfig_t;

ncclResult_t ncclGetVersion(int *version);
const char *ncclGetErrorString(ncclResult_t result);
// Returns the reason of the last failed call or collective of this process or, if none has failed,
// which ranks a collective waits for. Ignores comm.
const char *ncclGetLastError(ncclComm_t comm);

// The id holds an address. A thread of the calling process waits there until all ranks have
// connected, so the process must live that long. NCCL_SOCKET_IFNAME selects the interface ("lo",
// "eth", "^docker"). NCCL_COMM_ID=host:port sets the address for the ids of all processes; rank 0
// then waits there.
ncclResult_t ncclGetUniqueId(ncclUniqueId *uniqueId);

// Ranks on one host communicate through shared memory without a name, and ranks on different hosts
// through TCP. Ranks are on one host if they have the same boot id and host name, or the same
// NCCL_HOSTID. The call fails if not all ranks have connected after CPU_DEVICE_TIMEOUT seconds
// (300).
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId commId, int rank);
// All communicators are blocking, and config must be NULL. Neither call is allowed in a group.
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
                           ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *asyncError);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);

// In some cases in which NCCL would hang, these functions fail:
// - A rank has died (ncclRemoteError).
// - The ranks call different collectives, or with different counts, types, operations or roots
//   (ncclInvalidUsage).
// - A rank does not make the call within CPU_DEVICE_TIMEOUT seconds: ncclInvalidUsage, or
//   ncclRemoteError if nothing was heard from its host for 5 seconds.
// Synchronising the stream then returns cudaErrorLaunchFailure, and cudaGetErrorString returns the
// reason. All streams of the process drop their operations until ncclCommAbort.
// Sums are always added in the order of the ranks. bfloat16 numbers are added in 32 bits and
// rounded once.
ncclResult_t ncclAllReduce(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *sendbuff, void *recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBcast(void *buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t ncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream);
// A send to a rank on the same host ends when the receiver has taken all of it, even if it is
// small.
ncclResult_t ncclSend(const void *sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream);

ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);

// As in NCCL, a program may define these ten functions itself, without the p, and call these.
__typeof__(ncclCommInitRank) pncclCommInitRank;
__typeof__(ncclAllReduce) pncclAllReduce;
__typeof__(ncclBcast) pncclBcast;
__typeof__(ncclAllGather) pncclAllGather;
__typeof__(ncclReduceScatter) pncclReduceScatter;
__typeof__(ncclBroadcast) pncclBroadcast;
__typeof__(ncclSend) pncclSend;
__typeof__(ncclRecv) pncclRecv;
__typeof__(ncclGroupStart) pncclGroupStart;
__typeof__(ncclGroupEnd) pncclGroupEnd;

#ifdef __cplusplus
}
#endif
