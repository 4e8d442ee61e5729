// Linked into steps 5 and 7 with --wrap for each of the calls below. For each training step of each
// rank, it adds a line to the file COUNT_LOG: the bytes of parameters and gradients that the rank
// would send in a ring.
#include "02_multigpu_fork/nccl_check.h"
#include "common/training/optimizer.h"
#include "common/training/report.h"
#include <fcntl.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static double sent; // since the last step, or the evaluation after it

// The piece of each rank goes once around the ring, to all ranks but one. Parameters are gathered
// as bytes, and gradients are floats. Other collectives have other types.
static void count(double elements, ncclDataType_t type, ncclComm_t comm) {
    int ranks;
    NCCL_CHECK(ncclCommCount(comm, &ranks));
    sent += elements * (type == ncclFloat ? 4 : type == ncclChar ? 1 : 0) * (ranks - 1);
}

// An all-reduce of n elements goes around twice, in pieces of n / ranks.
static double piece(size_t n, ncclComm_t comm) {
    int ranks;
    NCCL_CHECK(ncclCommCount(comm, &ranks));
    return (double)n / ranks;
}

// COUNTED(name, parameters, arguments, elements) is a call that is passed on as it is.
#define COUNTED(name, parameters, arguments, elements)                                             \
    ncclResult_t __real_##name parameters;                                                         \
    ncclResult_t __wrap_##name parameters;                                                         \
    ncclResult_t __wrap_##name parameters {                                                        \
        count(elements, type, comm);                                                               \
        return __real_##name arguments;                                                            \
    }

COUNTED(ncclAllGather,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, comm, stream), n)
COUNTED(ncclReduceScatter,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream), n)
COUNTED(ncclAllReduce,
        (const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
         cudaStream_t stream),
        (from, to, n, type, op, comm, stream), 2 * piece(n, comm))

typedef void step(const struct optimizer *optimizer, float *parameters, const float *gradients,
                  float *states, size_t count, long number, cudaStream_t stream);
step __real_optimizer_step, __wrap_optimizer_step;
void __wrap_optimizer_step(const struct optimizer *optimizer, float *parameters,
                           const float *gradients, float *states, size_t count, long number,
                           cudaStream_t stream) {
    char line[64];
    int bytes = snprintf(line, sizeof line, "%.0f\n", sent);
    int file = open(getenv("COUNT_LOG"), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    if (file < 0 || write(file, line, bytes) != bytes) // at once, or lines would mix
        abort();
    close(file);
    sent = 0;
    __real_optimizer_step(optimizer, parameters, gradients, states, count, number, stream);
}

typedef void report(long number, long epochs, long total, struct stats train, struct stats test,
                    double elapsed, double images_per_second);
report __real_report_epoch, __wrap_report_epoch;
void __wrap_report_epoch(long number, long epochs, long total, struct stats train,
                         struct stats test, double elapsed, double images_per_second) {
    sent = 0;
    __real_report_epoch(number, epochs, total, train, test, elapsed, images_per_second);
}
