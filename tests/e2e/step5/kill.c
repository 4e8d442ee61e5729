// Linked into step 5 with --wrap for each of the calls below: sends rank R signal S before its Nth
// call of a function where KILL_AT is "R FUNCTION N S".
#include "../../../common/error.h"
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void called(const char *name) {
    static int calls;
    char function[64];
    int rank, nth, signal;
    const char *at = getenv("KILL_AT");
    if (at && sscanf(at, "%d %63s %d %d", &rank, function, &nth, &signal) == 4 &&
        rank == error_rank && !strcmp(function, name) && ++calls == nth)
        kill(getpid(), signal);
}

// WRAPPED(type, name, parameters, arguments) is a call that is passed on as it is.
#define WRAPPED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        called(#name);                                                                             \
        return __real_##name arguments;                                                            \
    }

WRAPPED(int, fsync, (int file), (file))
WRAPPED(int, rename, (const char *from, const char *to), (from, to))
WRAPPED(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))
WRAPPED(ncclResult_t, ncclAllGather,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, comm, stream))
WRAPPED(ncclResult_t, ncclReduceScatter,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))
WRAPPED(ncclResult_t, ncclAllReduce,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))
