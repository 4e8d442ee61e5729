#include "06_allreduce_demo/start.h"
#include "02_multigpu_fork/meet_by_memory.h"
#include "02_multigpu_fork/nccl_check.h"
#include "02_multigpu_fork/ranks.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/meet_by_tcp.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/training/report.h"
#include <stdio.h>
#include <stdlib.h>

static void fork_and_join(long nproc, int *rank, int *world, ncclComm_t *comm) {
    ncclUniqueId id = {0};
    refuse_launchers();
    *world = choose_world(nproc);
    struct rendezvous *rendezvous = open_rendezvous();
    *rank = start_ranks(*world);
    CUDA_CHECK(cudaSetDevice(choose_gpu(*rank, *world)));
    if (*rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    meet_by_memory(rendezvous, *rank, &id);
    NCCL_CHECK(ncclCommInitRank(comm, *world, id, *rank));
}

static void join_launched(long join_timeout, int *rank, int *world, ncclComm_t *comm) {
    ncclUniqueId id = {0};
    struct place place = find_place();
    number_from_environment("WORLD_SIZE", 1, 1000); // with more ranks, the sums would not be exact
    *rank = place.rank;
    *world = place.world;
    CUDA_CHECK(cudaSetDevice(choose_device(&place)));
    if (*rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    meet_by_tcp(&place, &id, NULL, join_timeout);
    NCCL_CHECK(ncclCommInitRank(comm, *world, id, *rank));
}

void become_rank(long nproc, long join_timeout, int *rank, int *world, ncclComm_t *comm) {
    if (getenv("RANK") && nproc)
        wrong_usage("--nproc %ld: RANK is set, so a launcher has started the ranks", nproc);
    if (getenv("RANK"))
        join_launched(join_timeout, rank, world, comm);
    else
        fork_and_join(nproc, rank, world, comm);
    setvbuf(stdout, NULL, _IOLBF, 0); // a job log shows each line at once
    report_muted = *rank > 0;         // only rank 0 prints
}
