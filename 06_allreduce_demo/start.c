#include "06_allreduce_demo/start.h"
#include "02_multigpu_fork/meet_by_memory.h"
#include "02_multigpu_fork/nccl_check.h"
#include "02_multigpu_fork/ranks.h"
#include "03_multigpu_launcher/environment.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/training/report.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fork_and_join(long nproc, int *rank, int *world, ncclComm_t *comm) {
    ncclUniqueId id = {0};
    *world = choose_world(nproc);
    struct rendezvous *rendezvous = open_rendezvous();
    *rank = start_ranks(*world);
    CUDA_CHECK(cudaSetDevice(*rank));
    if (*rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&id));
    meet_by_memory(rendezvous, *rank, &id);
    NCCL_CHECK(ncclCommInitRank(comm, *world, id, *rank));
}

// Puts the address of rank 0 into NCCL_COMM_ID. Then all ranks get the same id from NCCL, and NCCL
// itself lets the ranks meet at this address.
static void set_comm_address(void) {
    char address[300];
    const char *host = getenv("MASTER_ADDR");
    int port = rank0_port();
    if (!host || !*host)
        wrong_usage("RANK is set, but MASTER_ADDR is not: a launcher such as torchrun sets both");
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    setenv("NCCL_COMM_ID", address, 1);
}

static void join_launched(int *rank, int *world, ncclComm_t *comm) {
    ncclUniqueId id;
    struct place place = find_place();
    number_from_environment("WORLD_SIZE", 1, 1000); // with more ranks, the sums would not be exact
    set_comm_address();
    *rank = place.rank;
    *world = place.world;
    CUDA_CHECK(cudaSetDevice(choose_device(&place)));
    NCCL_CHECK(ncclGetUniqueId(&id));
    NCCL_CHECK(ncclCommInitRank(comm, *world, id, *rank));
}

void become_rank(long nproc, int *rank, int *world, ncclComm_t *comm) {
    if (getenv("RANK") && nproc)
        wrong_usage("--nproc %ld: RANK is set, so a launcher has started the ranks", nproc);
    if (getenv("RANK"))
        join_launched(rank, world, comm);
    else
        fork_and_join(nproc, rank, world, comm);
    setvbuf(stdout, NULL, _IOLBF, 0); // a job log shows each line at once
    report_muted = *rank > 0;         // only rank 0 prints
}
