// watchdog: what the host does for each collective of one rank, in microseconds: a blocking call of
// NCCL alone, the same under step 4's watchdog, and a call on a non-blocking communicator until
// NCCL has taken it in.
#include "04_multinode/watchdog.h"
#include "02_multigpu_fork/nccl_check.h"
#include "common/base/clock.h"
#include "common/device/device.h"
#include <stdio.h>
#include <stdlib.h>

enum { CALLS = 50, ROUNDS = 401 }; // so few calls that no stream is full

static float *x;
static cudaStream_t stream;

static void blocking(ncclComm_t comm) {
    NCCL_CHECK(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream));
}

static void watched(ncclComm_t comm) {
    COLLECTIVE(stream, ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream));
}

static void non_blocking(ncclComm_t comm) {
    ncclResult_t result = ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream);
    while (result == ncclInProgress)
        NCCL_CHECK(ncclCommGetAsyncError(comm, &result));
    NCCL_CHECK(result);
}

static int compare(const void *a, const void *b) {
    double difference = *(const double *)a - *(const double *)b;
    return (difference > 0) - (difference < 0);
}

static void measure(const char *name, void (*call)(ncclComm_t), ncclComm_t comm) {
    double times[ROUNDS];
    for (int round = 0; round < ROUNDS; round++) {
        double begin = seconds();
        for (int i = 0; i < CALLS; i++)
            call(comm);
        times[round] = (seconds() - begin) / CALLS;
        wait_for(stream);
    }
    qsort(times, ROUNDS, sizeof *times, compare);
    printf("%-26s %8.2f %8.2f\n", name, 1e6 * times[ROUNDS / 2], 1e6 * times[ROUNDS * 9 / 10]);
}

int main(void) {
    ncclUniqueId ids[2];
    ncclComm_t comms[2];
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    CUDA_CHECK(cudaSetDevice(0));
    CUDA_CHECK(cudaStreamCreate(&stream));
    DEVICE_ALLOC(x, "data", sizeof *x);
    CUDA_CHECK(cudaMemset(x, 0, sizeof *x));
    NCCL_CHECK(ncclGetUniqueId(&ids[0]));
    NCCL_CHECK(ncclGetUniqueId(&ids[1]));
    start_watchdog(60, 60);
    COLLECTIVE(stream, ncclCommInitRank(&comms[0], 1, ids[0], 0));
    watch_comm(comms[0]);
    config.blocking = 0;
    ncclResult_t result = ncclCommInitRankConfig(&comms[1], 1, ids[1], 0, &config);
    while (result == ncclInProgress)
        NCCL_CHECK(ncclCommGetAsyncError(comms[1], &result));
    NCCL_CHECK(result);
    print_device();
    printf("%-26s %8s %8s  (%d rounds of %d calls)\n", "microseconds a call", "median", "90 %",
           ROUNDS, CALLS);
    measure("blocking", blocking, comms[0]);
    measure("blocking, with watchdog", watched, comms[0]);
    measure("non-blocking, polled", non_blocking, comms[1]);
    ncclCommAbort(comms[1]);
    end_watchdog();
    return 0;
}
