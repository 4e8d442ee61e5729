// Included in front of the attendee's sources: records their calls. They stay calls of the
// attendee's lines, so that error messages name these lines.
#pragma once
#include "common/base/clock.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include <nccl.h>
#include <poll.h>

enum { NO_TYPE = -1 };

// Counts a call on this stream (NULL: of no stream) that is given this number of values.
void observe(const char *function, size_t values, int type, cudaStream_t stream);

extern int observed_groups; // of NCCL calls, which have begun and not ended

int observe_rank(void);

// Records which samples a rank uses: of the training order, or of the test set if order is NULL.
void observe_samples(const uint32_t *order, size_t first, int rows);

// With OBSERVE_SEED set, each rank initialises with a different seed. Rank 0 keeps its own.
uint64_t observe_seed(uint64_t seed);

// With OBSERVE_CLOCK=N, the clock runs N times as fast.
double observe_seconds(void);
int observe_poll(struct pollfd *fds, nfds_t count, int milliseconds);

#define seconds() observe_seconds()
#define poll(fds, count, milliseconds) observe_poll(fds, count, milliseconds)

// Counts an operation that is a barrier, because the stream is the default one.
void observe_barrier(cudaStream_t stream);

// If a call fails and nothing looks at its result, the losses are wrong for no visible reason. So
// the compiler warns of such a call.
#define RESULT_IS_NEEDED(function) __typeof__(function) function __attribute__((warn_unused_result))
RESULT_IS_NEEDED(ncclAllReduce);
RESULT_IS_NEEDED(ncclReduceScatter);
RESULT_IS_NEEDED(ncclAllGather);
RESULT_IS_NEEDED(ncclBroadcast);
RESULT_IS_NEEDED(ncclBcast);
RESULT_IS_NEEDED(ncclSend);
RESULT_IS_NEEDED(ncclRecv);
RESULT_IS_NEEDED(cudaStreamWaitEvent);
RESULT_IS_NEEDED(cudaEventRecord);

#define gather_batch(set, order, first, rows, x, y, stream)                                        \
    (observe_samples(order, first, rows), gather_batch(set, order, first, rows, x, y, stream))
#define initialise(layer, parameters, first, count, seed, stream)                                  \
    initialise(layer, parameters, first, count, observe_seed(seed), stream)
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
#define ncclReduce(from, to, n, type, op, root, comm, stream)                                      \
    (observe("ncclReduce", n, type, stream), ncclReduce(from, to, n, type, op, root, comm, stream))
#define ncclBcast(data, n, type, root, comm, stream)                                               \
    (observe("ncclBcast", n, type, stream), ncclBcast(data, n, type, root, comm, stream))
#define ncclSend(from, n, type, peer, comm, stream)                                                \
    (observe("ncclSend", n, type, stream), ncclSend(from, n, type, peer, comm, stream))
#define ncclRecv(to, n, type, peer, comm, stream)                                                  \
    (observe("ncclRecv", n, type, stream), ncclRecv(to, n, type, peer, comm, stream))
#define ncclGroupStart()                                                                           \
    (observed_groups++, observe("ncclGroupStart", 0, NO_TYPE, NULL), ncclGroupStart())
#define ncclGroupEnd() (observed_groups--, ncclGroupEnd())
#define ncclCommGetAsyncError(comm, state)                                                         \
    (observe("ncclCommGetAsyncError", 0, NO_TYPE, NULL), ncclCommGetAsyncError(comm, state))

// The host waits for a copy from or to its memory. The others only use the default stream, which
// waits for all streams and lets all of them wait.
#define cudaMemcpy(to, from, bytes, kind)                                                          \
    (observe((kind) == cudaMemcpyDeviceToDevice ? "barrier" : "cudaMemcpy", 0, NO_TYPE, NULL),     \
     cudaMemcpy(to, from, bytes, kind))
#define cudaMemcpyAsync(to, from, bytes, kind, stream)                                             \
    (observe_barrier(stream), cudaMemcpyAsync(to, from, bytes, kind, stream))
#define cudaMemset(to, value, bytes) (observe_barrier(NULL), cudaMemset(to, value, bytes))
#define cudaMemsetAsync(to, value, bytes, stream)                                                  \
    (observe_barrier(stream), cudaMemsetAsync(to, value, bytes, stream))
#define cudaStreamWaitEvent(stream, event, flags)                                                  \
    (observe("cudaStreamWaitEvent", 0, NO_TYPE, stream), cudaStreamWaitEvent(stream, event, flags))
#define cudaStreamSynchronize(stream)                                                              \
    (observe("cudaStreamSynchronize", 0, NO_TYPE, stream), cudaStreamSynchronize(stream))
#define cudaStreamQuery(stream)                                                                    \
    (observe("cudaStreamQuery", 0, NO_TYPE, stream), cudaStreamQuery(stream))
#define cudaEventQuery(event) (observe("cudaEventQuery", 0, NO_TYPE, NULL), cudaEventQuery(event))
#define cudaEventSynchronize(event)                                                                \
    (observe("cudaEventSynchronize", 0, NO_TYPE, NULL), cudaEventSynchronize(event))
#define cudaDeviceSynchronize()                                                                    \
    (observe("cudaDeviceSynchronize", 0, NO_TYPE, NULL), cudaDeviceSynchronize())
