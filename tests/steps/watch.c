// Linked into a step with --wrap for each of the calls below. Writes a line for each event of a job
// to the file WATCH_LOG, and sends signal S to rank R before its Nth call of a function where
// KILL_AT is "R FUNCTION N S". R is -1 for a process that has no rank yet.
#include "common/data/data.h"
#include "common/device/device.h"
#include "common/snapshots/snapshot.h"
#include "common/training/report.h"
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// The rank of this process, -1: it has none.
static int own_rank(void) {
    int rank;
    return sscanf(error_name, "rank %d", &rank) == 1 ? rank : -1;
}

static int epoch = 1;

__attribute__((format(printf, 1, 2))) static void note(const char *format, ...) {
    char text[1 << 16];
    const char *path = getenv("WATCH_LOG");
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
    if (file < 0)
        return;
    va_list arguments;
    va_start(arguments, format);
    int bytes = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (bytes >= (int)sizeof text ||
        write(file, text, (size_t)bytes) != bytes) // at once, or lines would mix
        abort();
    close(file);
}

static void called(const char *name) {
    static int calls;
    char function[64] = "";
    int rank, nth, signal;
    const char *at = getenv("KILL_AT");
    if (at && sscanf(at, "%d %63s %d %d", &rank, function, &nth, &signal) == 4 &&
        rank == own_rank() && !strcmp(function, name) && ++calls == nth)
        kill(getpid(), signal);
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
WATCHED(ncclResult_t, ncclCommSplit,
        (ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config),
        (comm, color, key, part, config))
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
WATCHED(int, fsync, (int file), (file))
WATCHED(int, rename, (const char *from, const char *to), (from, to))
WATCHED(int, unlinkat, (int folder, const char *name, int flags), (folder, name, flags))

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) {
    note("fork\n");
    return __real_fork();
}

int __real_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]);
int __wrap_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]);
int __wrap_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    note("rank %d saves\n", own_rank());
    called("snapshot_save");
    return __real_snapshot_save(path, s, why);
}

// "epoch 1 train 17 rank 0" for each sample that goes into a batch, read from the device when it is
// there.
typedef void gather(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                    float *x, uint8_t *y, cudaStream_t stream);
gather __real_gather_batch, __wrap_gather_batch;
void __wrap_gather_batch(const struct dataset *set, const uint32_t *order, size_t first, int rows,
                         float *x, uint8_t *y, cudaStream_t stream) {
    uint32_t samples[1000];
    char text[40000] = "";
    called("gather_batch");
    for (int r = 0, used = 0; getenv("WATCH_LOG") && r < rows && rows <= 1000; r++) {
        if (order && r == 0) {
            CUDA_CHECK(cudaMemcpyAsync(samples, order + first, (size_t)rows * sizeof *samples,
                                       cudaMemcpyDeviceToHost, stream));
            CUDA_CHECK(cudaStreamSynchronize(stream));
        }
        used +=
            snprintf(text + used, sizeof text - (size_t)used, "epoch %d %s %zu rank %d\n", epoch,
                     order ? "train" : "test", order ? samples[r] : first + (size_t)r, own_rank());
    }
    note("%s", text);
    __real_gather_batch(set, order, first, rows, x, y, stream);
}

typedef void report(long number, long epochs, long total, struct stats train, struct stats test,
                    double elapsed, double images_per_second);
report __real_report_epoch, __wrap_report_epoch;
void __wrap_report_epoch(long number, long epochs, long total, struct stats train,
                         struct stats test, double elapsed, double images_per_second) {
    note("rank %d reports %g train %g test %.6g in time\n", own_rank(), train.samples, test.samples,
         images_per_second * elapsed);
    called("report_epoch");
    epoch++;
    __real_report_epoch(number, epochs, total, train, test, elapsed, images_per_second);
}
