// Linked into a step with --wrap for each of the calls below. Sends signal S to rank R before its
// Nth call of a function where KILL_AT is "R FUNCTION N S". R is -1 for a process that has no rank
// yet. If S is 0, the disk is full from then on.
#include "common/data/data.h"
#include "common/snapshots/snapshot.h"
#include "common/training/report.h"
#include <errno.h>
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The rank of this process, -1: it has none.
static int own_rank(void) {
    int rank;
    return sscanf(error_name, "rank %d", &rank) == 1 ? rank : -1;
}

static int disk_is_full;

static void called(const char *name) {
    static int calls;
    char function[64] = "";
    int rank, nth, signal;
    const char *at = getenv("KILL_AT");
    if (at && sscanf(at, "%d %63s %d %d", &rank, function, &nth, &signal) == 4 &&
        rank == own_rank() && !strcmp(function, name) && ++calls == nth) {
        kill(getpid(), signal);
        disk_is_full = signal == 0;
    }
}

// WATCHED(type, name, parameters, arguments) is a call that is passed on as it is.
#define WATCHED(type, name, parameters, arguments)                                                 \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters {                                                                \
        called(#name);                                                                             \
        return __real_##name arguments;                                                            \
    }

WATCHED(cudaError_t, cudaGetDeviceCount, (int *count), (count))
WATCHED(cudaError_t, cudaSetDevice, (int device), (device))
WATCHED(ncclResult_t, ncclGetUniqueId, (ncclUniqueId * id), (id))
WATCHED(ncclResult_t, ncclCommInitRank, (ncclComm_t * comm, int n, ncclUniqueId id, int rank),
        (comm, n, id, rank))
WATCHED(ncclResult_t, ncclAllReduce,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))
WATCHED(ncclResult_t, ncclAllGather,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, comm, stream))
WATCHED(ncclResult_t, ncclReduceScatter,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))
WATCHED(ncclResult_t, ncclSend,
        (const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
         cudaStream_t stream),
        (from, n, type, peer, comm, stream))
WATCHED(ncclResult_t, ncclRecv,
        (void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream),
        (to, n, type, peer, comm, stream))
WATCHED(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))
WATCHED(int, rename, (const char *from, const char *to), (from, to))
WATCHED(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))

WATCHED(int, snapshot_save, (const char *path, struct snapshot *s, char why[WHY_SIZE]),
        (path, s, why))
WATCHED(void, gather_batch,
        (const struct dataset *set, const uint32_t *order, size_t first, int rows, float *x,
         uint8_t *y, cudaStream_t stream),
        (set, order, first, rows, x, y, stream))
WATCHED(void, report_epoch,
        (long number, long epochs, long total, struct stats train, struct stats test,
         double elapsed, double rate),
        (number, epochs, total, train, test, elapsed, rate))

int __real_fsync(int file);
int __wrap_fsync(int file);
int __wrap_fsync(int file) {
    called("fsync");
    if (!disk_is_full)
        return __real_fsync(file);
    errno = ENOSPC;
    return -1;
}
