// How a process becomes a rank of this program: forked, as in step 2, or started by a launcher that
// tells it who it is, as from step 3 on. Nothing here knows what the ranks are for.
#pragma once
#include "../02_multigpu_fork/ranks.h"
#include "../common/options.h"
#include "../common/report.h"
#include <nccl.h>
#include <semaphore.h>

struct meeting {
    ncclUniqueId id;
    sem_t id_made;
};

// Ranks of our own, as many as nproc says, or as GPUs if it is 0. All get the id that rank 0 makes,
// and meet.
static void fork_and_join(long nproc, int *rank, int *world, ncclComm_t *comm) {
    int devices = count_devices();
    if (nproc > devices)
        wrong_usage("--nproc %ld is more than there are GPUs (%d)%s", nproc, devices,
                    more_devices(nproc));
    struct meeting *meeting = share_memory(sizeof *meeting);
    sem_init(&meeting->id_made, 1, 0);
    *world = nproc ? nproc : devices;
    *rank = start_ranks(*world);
    CUDA_CHECK(cudaSetDevice(*rank));
    if (*rank == 0)
        NCCL_CHECK(ncclGetUniqueId(&meeting->id));
    else
        sem_wait(&meeting->id_made);
    sem_post(&meeting->id_made); // for the next rank
    NCCL_CHECK(ncclCommInitRank(comm, *world, meeting->id, *rank));
}

static int from_environment(const char *name, long min, long max) {
    const char *text = getenv(name);
    if (!text)
        wrong_usage("RANK is set, but %s is not: a launcher such as torchrun sets both", name);
    char *end;
    long number = strtol(text, &end, 10);
    if (end == text || *end || number < min || number > max)
        wrong_usage("%s=%s in the environment: want a number from %ld to %ld", name, text, min,
                    max);
    return number;
}

// A launcher's ranks, told by torchrun's variables. With an address in NCCL_COMM_ID all ranks make
// the same id, and NCCL's rank 0 waits there for the others.
static void join_launched(int *rank, int *world, ncclComm_t *comm) {
    char address[300];
    int devices;
    ncclUniqueId id;
    const char *host = getenv("MASTER_ADDR"), *agent = getenv("TORCHELASTIC_USE_AGENT_STORE");
    *world = from_environment("WORLD_SIZE", 1, 1000);
    *rank = from_environment("RANK", 0, *world - 1);
    int local_rank = from_environment("LOCAL_RANK", 0, *rank);
    int port = from_environment("MASTER_PORT", 1, 65534);
    if (!host || !*host)
        wrong_usage("RANK is set, but MASTER_ADDR is not: a launcher such as torchrun sets both");
    error_rank = *rank;
    // At MASTER_PORT torchrun listens itself, with a store for PyTorch, so NCCL gets the port after
    // it.
    port += agent && !strcmp(agent, "True");
    snprintf(address, sizeof address, strchr(host, ':') ? "[%s]:%d" : "%s:%d", host, port);
    setenv("NCCL_COMM_ID", address, 1);
    CUDA_CHECK(cudaGetDeviceCount(&devices));
    CUDA_CHECK(
        cudaSetDevice(devices == 1 ? 0 : local_rank)); // a job may show each rank its own GPU only
    NCCL_CHECK(ncclGetUniqueId(&id));
    NCCL_CHECK(ncclCommInitRank(comm, *world, id, *rank));
}

static void become_rank(long nproc, int *rank, int *world, ncclComm_t *comm) {
    if (getenv("RANK") && nproc)
        wrong_usage("--nproc %ld: RANK is set, so a launcher has started the ranks", nproc);
    if (getenv("RANK"))
        join_launched(rank, world, comm);
    else
        fork_and_join(nproc, rank, world, comm);
    setvbuf(stdout, NULL, _IOLBF, 0); // a job log shows each line at once
    report_muted = *rank > 0;         // rank 0 speaks for all
}
