// Makes each collective a span of the profile. NCCL defines every function twice: ncclAllReduce is
// a weak symbol, and pncclAllReduce is the same function. A program may therefore define
// ncclAllReduce itself, do something before and after it, and call pncclAllReduce. Tools for MPI do
// the same.
#include "common/profile.h"
#include <nccl.h>

#define SPAN(call)                                                                                 \
    do {                                                                                           \
        span_begin(PHASE_COMMUNICATION, __func__, stream);                                         \
        ncclResult_t result = (call);                                                              \
        span_end();                                                                                \
        return result;                                                                             \
    } while (0)

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    SPAN(pncclAllReduce(send, recv, count, type, op, comm, stream));
}

ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
    SPAN(pncclBcast(buffer, count, type, root, comm, stream));
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    SPAN(pncclAllGather(send, recv, count, type, comm, stream));
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    SPAN(pncclReduceScatter(send, recv, count, type, op, comm, stream));
}
