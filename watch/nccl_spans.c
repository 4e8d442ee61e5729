// Makes each collective, send and receive of the program a span of the profile. No call says so:
// NCCL defines every function twice, ncclAllReduce as a weak symbol and pncclAllReduce as the same
// function. So this file defines ncclAllReduce itself, begins a span, calls pncclAllReduce, and
// ends the span. Tools for MPI do the same.
#include "watch/profile.h"
#include "watch/trace.h"
#include <nccl.h>

// Returns the bytes of count elements of a type that the course sends.
static double bytes_of(size_t count, ncclDataType_t type) {
    switch (type) {
    case ncclDouble:
        return 8.0 * count;
    case ncclFloat:
    case ncclInt:
        return 4.0 * count;
    default: // step 7 sends its bfloat16 as bytes
        return count;
    }
}

// Returns the bytes of the longer buffer, which holds count elements for each rank.
static double bytes_of_all(size_t count, ncclDataType_t type, ncclComm_t comm) {
    int ranks = 1;
    ncclCommCount(comm, &ranks);
    return ranks * bytes_of(count, type);
}

// NCCL queues the calls of a group as one operation when the group ends, so they are one span. It
// has the name and the stream of the first call, and the bytes of all of them.
static _Thread_local struct {
    int depth;        // open groups
    const char *name; // NULL: no call yet
    cudaStream_t stream;
    double bytes;
} group;

static void add_to_group(const char *name, double bytes, cudaStream_t stream) {
    if (!group.name) {
        group.name = name;
        group.stream = stream;
        group.bytes = 0;
    }
    group.bytes += bytes;
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int ranks, ncclUniqueId id, int rank) {
    trace_process = (struct trace_process){rank, ranks};
    return pncclCommInitRank(comm, ranks, id, rank);
}

ncclResult_t ncclGroupStart(void) {
    group.depth++;
    return pncclGroupStart();
}

ncclResult_t ncclGroupEnd(void) {
    const char *name = --group.depth ? NULL : group.name;
    if (!name)
        return pncclGroupEnd();
    group.name = NULL;
    profile_begin(PHASE_COMMUNICATION, name, group.stream);
    profile_bytes(group.bytes);
    ncclResult_t result = pncclGroupEnd();
    profile_end();
    return result;
}

#define SPAN(bytes, call)                                                                          \
    do {                                                                                           \
        if (group.depth > 0) {                                                                     \
            add_to_group(__func__, bytes, stream);                                                 \
            return (call);                                                                         \
        }                                                                                          \
        profile_begin(PHASE_COMMUNICATION, __func__, stream);                                      \
        profile_bytes(bytes);                                                                      \
        ncclResult_t result = (call);                                                              \
        profile_end();                                                                             \
        return result;                                                                             \
    } while (0)

ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    SPAN(bytes_of(count, type), pncclAllReduce(send, recv, count, type, op, comm, stream));
}

ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
    SPAN(bytes_of(count, type), pncclBroadcast(send, recv, count, type, root, comm, stream));
}

// pncclBcast would call ncclBroadcast above, and spans do not contain each other.
ncclResult_t ncclBcast(void *buffer, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                       cudaStream_t stream) {
    SPAN(bytes_of(count, type), pncclBroadcast(buffer, buffer, count, type, root, comm, stream));
}

ncclResult_t ncclSend(const void *send, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
    SPAN(bytes_of(count, type), pncclSend(send, count, type, peer, comm, stream));
}

ncclResult_t ncclRecv(void *recv, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    SPAN(bytes_of(count, type), pncclRecv(recv, count, type, peer, comm, stream));
}

ncclResult_t ncclAllGather(const void *send, void *recv, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
    SPAN(bytes_of_all(count, type, comm), pncclAllGather(send, recv, count, type, comm, stream));
}

ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    SPAN(bytes_of_all(count, type, comm),
         pncclReduceScatter(send, recv, count, type, op, comm, stream));
}
