// Included in front of the attendee's sources: counts their calls of NCCL, their calls that let the
// host or a stream wait, and the samples that they evaluate. They stay calls of the attendee's
// lines, so that error messages name these lines.
#pragma once
#include "common/kernels.h"
#include <nccl.h>

enum { NO_TYPE = -1 };

// Counts a call on this stream (NULL: of no stream) that is given so many values.
void observe(const char *function, size_t values, int type, cudaStream_t stream);

#define ncclAllReduce(from, to, n, type, op, comm, stream)                                         \
    (observe("ncclAllReduce", n, type, stream), ncclAllReduce(from, to, n, type, op, comm, stream))
#define ncclReduceScatter(from, to, n, type, op, comm, stream)                                     \
    (observe("ncclReduceScatter", n, type, stream),                                                \
     ncclReduceScatter(from, to, n, type, op, comm, stream))
#define ncclAllGather(from, to, n, type, comm, stream)                                             \
    (observe("ncclAllGather", n, type, stream), ncclAllGather(from, to, n, type, comm, stream))
#define ncclBroadcast(from, to, n, type, root, comm, stream)                                       \
    (observe("ncclBroadcast", n, type, stream),                                                    \
     ncclBroadcast(from, to, n, type, root, comm, stream))
#define ncclBcast(data, n, type, root, comm, stream)                                               \
    (observe("ncclBcast", n, type, stream), ncclBcast(data, n, type, root, comm, stream))
#define ncclSend(from, n, type, peer, comm, stream)                                                \
    (observe("ncclSend", n, type, stream), ncclSend(from, n, type, peer, comm, stream))
#define ncclRecv(to, n, type, peer, comm, stream)                                                  \
    (observe("ncclRecv", n, type, stream), ncclRecv(to, n, type, peer, comm, stream))

#define cudaStreamWaitEvent(stream, event, flags)                                                  \
    (observe("cudaStreamWaitEvent", 0, NO_TYPE, stream), cudaStreamWaitEvent(stream, event, flags))
#define cudaStreamSynchronize(stream)                                                              \
    (observe("cudaStreamSynchronize", 0, NO_TYPE, stream), cudaStreamSynchronize(stream))
#define cudaEventSynchronize(event)                                                                \
    (observe("cudaEventSynchronize", 0, NO_TYPE, NULL), cudaEventSynchronize(event))
#define cudaDeviceSynchronize()                                                                    \
    (observe("cudaDeviceSynchronize", 0, NO_TYPE, NULL), cudaDeviceSynchronize())

// Without an order, as in evaluation.
#define gather_batch(set, order, first, rows, ...)                                                 \
    ((order) ? (void)0 : observe("gather_batch", rows, NO_TYPE, NULL),                             \
     gather_batch(set, order, first, rows, __VA_ARGS__))
