// stuck late|freeze|die|first|last JOIN_TIMEOUT STEP_TIMEOUT: two ranks make collectives under the
// attendee's watchdog. Rank 0 queues them at once. Rank 1 comes late for the first ones, or it
// freezes or dies before the one with number 95, which is the only broadcast. That is more than the
// watchdog has entries, so it has used some of them again. With first and last, it dies, too: only
// NCCL knows of it, as on a GPU, and the error is that of the first or the last communicator.
#include "04_multinode/meet_by_tcp.h"
#include "04_multinode/watchdog.h"
#include "common/base/error.h"
#include "common/device/device.h"
#include <nccl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const int CREATION_DELAY = 1300000, DELAY = 400000; // microseconds
enum { BROADCAST = 95 };

static int only_nccl_knows;

cudaError_t __real_cudaEventQuery(cudaEvent_t event);
cudaError_t __wrap_cudaEventQuery(cudaEvent_t event) {
    cudaError_t error = __real_cudaEventQuery(event);
    return error == cudaSuccess || !only_nccl_knows ? error : cudaErrorNotReady;
}

int main(int argc, char **argv) {
    struct place p = find_place();
    ncclUniqueId id = {0};
    ncclComm_t first, comm, alone[2];
    cudaStream_t stream;
    float *x;
    if (argc != 4)
        fail("stuck late|freeze|die|first|last JOIN_TIMEOUT STEP_TIMEOUT");
    int late = !strcmp(argv[1], "late") && p.rank == 1;
    int is_last = !strcmp(argv[1], "last");
    only_nccl_knows = is_last || !strcmp(argv[1], "first");
    CUDA_CHECK(cudaSetDevice(choose_device(&p)));
    CUDA_CHECK(cudaStreamCreate(&stream));
    CUDA_CHECK(cudaMalloc((void **)&x, sizeof *x));
    CUDA_CHECK(cudaMemset(x, 0, sizeof *x));
    if (p.rank == 0 && ncclGetUniqueId(&id) != ncclSuccess)
        fail("cannot make an id");
    meet_by_tcp(&p, &id, NULL, 60);
    start_watchdog(atof(argv[2]), atof(argv[3]));
    usleep(late ? CREATION_DELAY : 0);
    COLLECTIVE(stream, ncclCommInitRank(&first, p.world, id, p.rank));
    COLLECTIVE(stream, ncclCommSplit(first, 0, p.rank, &comm, NULL));
    if (!is_last)
        watch_comm(comm);
    for (int i = 2; i < BROADCAST + 4; i++) {
        watch_step(i);
        if (i == BROADCAST / 2)
            wait_for(stream); // only the watchdog completes the late ones, not begin_collective
        if (i == 66 && is_last)
            watch_comm(comm);
        usleep(late && i < 6 ? DELAY : 0);
        if (i == BROADCAST && p.rank == 1 && !late && strcmp(argv[1], "late")) {
            wait_for(stream);
            usleep(300000); // so that rank 0 has completed the collectives before, too
            raise(!strcmp(argv[1], "freeze") ? SIGSTOP : SIGKILL);
        }
        if (i == 64 || i == 65) { // these have the entries of collectives 0 and 1, and their limit
            COLLECTIVE(stream, ncclCommSplit(first, p.rank, 0, &alone[i - 64], NULL));
            watch_comm(alone[i - 64]);
        } else if (i == BROADCAST)
            COLLECTIVE(stream, ncclBcast(x, 1, ncclFloat, 0, comm, stream));
        else
            COLLECTIVE(stream, ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream));
    }
    wait_for(stream);
    usleep(3 * CREATION_DELAY); // no collective is queued; on a busy machine, the watchdog counts
                                // less time
    usleep(late ? DELAY : 0);
    COLLECTIVE(stream, ncclAllReduce(x, x, 1, ncclFloat, ncclSum, comm, stream));
    wait_for(stream);
    end_watchdog();
    puts("done");
    return 0;
}
