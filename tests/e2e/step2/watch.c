// Linked into step 2 with --wrap for each of the calls below: writes down in the file WATCH_LOG
// what the processes of a job do, a line for each thing, and sends rank R signal S at its Nth call
// of a function where WATCH_AT is "R FUNCTION N S" (rank -1: whoever is none).
#include "../../../common/data.h"
#include "../../../common/report.h"
#include "../../../common/snapshot.h"
#include <fcntl.h>
#include <nccl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
    const char *at = getenv("WATCH_AT");
    if (at && sscanf(at, "%d %63s %d %d", &rank, function, &nth, &signal) == 4 &&
        rank == error_rank && !strcmp(function, name) && ++calls == nth)
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
WATCHED(ncclResult_t, ncclAllReduce,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream))
WATCHED(ncclResult_t, ncclCommDestroy, (ncclComm_t comm), (comm))

pid_t __real_fork(void);
pid_t __wrap_fork(void);
pid_t __wrap_fork(void) {
    note("fork\n");
    return __real_fork();
}

int __real_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]);
int __wrap_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]);
int __wrap_snapshot_save(const char *path, struct snapshot *s, char why[WHY_SIZE]) {
    note("rank %d saves\n", error_rank);
    called("snapshot_save");
    return __real_snapshot_save(path, s, why);
}

// "epoch 1 train 17 rank 0" for each sample that goes into a batch, read from the device when it is
// there.
typedef void gather(const uint8_t *images, const uint8_t *labels, const uint32_t *order,
                    size_t first, int rows, int pixels, float mean, float deviation, float *x,
                    uint8_t *y, cudaStream_t stream);
gather __real_gather_batch, __wrap_gather_batch;
void __wrap_gather_batch(const uint8_t *images, const uint8_t *labels, const uint32_t *order,
                         size_t first, int rows, int pixels, float mean, float deviation, float *x,
                         uint8_t *y, cudaStream_t stream) {
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
                     order ? "train" : "test", order ? samples[r] : first + (size_t)r, error_rank);
    }
    note("%s", text);
    __real_gather_batch(images, labels, order, first, rows, pixels, mean, deviation, x, y, stream);
}

typedef void report(long number, long epochs, long total, struct stats train, struct stats test,
                    double elapsed, double images_per_second);
report __real_report_epoch, __wrap_report_epoch;
void __wrap_report_epoch(long number, long epochs, long total, struct stats train,
                         struct stats test, double elapsed, double images_per_second) {
    note("rank %d reports %g train %g test %.6g in time\n", error_rank, train.samples, test.samples,
         images_per_second * elapsed);
    called("report_epoch");
    epoch++;
    __real_report_epoch(number, epochs, total, train, test, elapsed, images_per_second);
}
