// Included in front of the attendee's sources: counts their calls of NCCL. They stay calls of the
// attendee's lines, so that error messages name these lines.
#pragma once
#include <nccl.h>

// Counts a call that is given so many values.
void observe(const char *function, size_t values, ncclDataType_t type);

#define ncclAllReduce(from, to, n, type, ...)                                                      \
    (observe("ncclAllReduce", n, type), ncclAllReduce(from, to, n, type, __VA_ARGS__))
#define ncclReduceScatter(from, to, n, type, ...)                                                  \
    (observe("ncclReduceScatter", n, type), ncclReduceScatter(from, to, n, type, __VA_ARGS__))
#define ncclAllGather(from, to, n, type, ...)                                                      \
    (observe("ncclAllGather", n, type), ncclAllGather(from, to, n, type, __VA_ARGS__))
#define ncclBroadcast(from, to, n, type, ...)                                                      \
    (observe("ncclBroadcast", n, type), ncclBroadcast(from, to, n, type, __VA_ARGS__))
#define ncclBcast(data, n, type, ...)                                                              \
    (observe("ncclBcast", n, type), ncclBcast(data, n, type, __VA_ARGS__))
#define ncclSend(from, n, type, ...)                                                               \
    (observe("ncclSend", n, type), ncclSend(from, n, type, __VA_ARGS__))
#define ncclRecv(to, n, type, ...)                                                                 \
    (observe("ncclRecv", n, type), ncclRecv(to, n, type, __VA_ARGS__))
