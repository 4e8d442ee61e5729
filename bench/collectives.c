// collectives RANKS: the all-reduce of the CPU device, one process and one device per rank.
#include "bench/allreduce.h"
#include "common/base/error.h"
#include "common/device/device.h"
#include <nccl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static struct shared {
    ncclUniqueId id;
    atomic_int ready;
} * shared;

static ncclComm_t comm;
static cudaStream_t stream;

static void check_nccl(ncclResult_t result, const char *what) {
    if (result != ncclSuccess)
        fail("%s: %s (%s)", what, ncclGetErrorString(result), ncclGetLastError(comm));
}

static float *new_buffer(size_t count) {
    float *buffer;
    DEVICE_ALLOC(buffer, "data", count * sizeof *buffer);
    return buffer;
}

static void copy(void *to, const void *from, size_t bytes) {
    CUDA_CHECK(cudaMemcpy(to, from, bytes, cudaMemcpyDefault));
}

static void sum(float *buffer, size_t count, int times) {
    for (int i = 0; i < times; i++)
        check_nccl(ncclAllReduce(buffer, buffer, count, ncclFloat, ncclSum, comm, stream),
                   "ncclAllReduce");
    CUDA_CHECK(cudaStreamSynchronize(stream));
}

static void run(int rank, int ranks) {
    snprintf(error_name, sizeof error_name, "rank %d", rank);
    if (rank == 0) {
        check_nccl(ncclGetUniqueId(&shared->id), "ncclGetUniqueId");
        atomic_store(&shared->ready, 1);
    }
    while (!atomic_load(&shared->ready))
        usleep(1000);
    CUDA_CHECK(cudaSetDevice(rank));
    CUDA_CHECK(cudaStreamCreate(&stream));
    check_nccl(ncclCommInitRank(&comm, ranks, shared->id, rank), "ncclCommInitRank");
    measure(&(struct all_reduce){new_buffer, copy, sum}, rank, ranks);
    check_nccl(ncclCommDestroy(comm), "ncclCommDestroy");
}

// Runs each rank in a process of its own. If one fails, the CPU device ends the others.
int main(int argc, char **argv) {
    int ranks = argc == 2 ? atoi(argv[1]) : 0, status, failed = 0;
    if (ranks < 1) {
        fprintf(stderr, "usage: %s RANKS\n", argv[0]);
        return 2;
    }
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        fail("mmap failed");
    for (int rank = 0; rank < ranks; rank++)
        if (fork() == 0) {
            run(rank, ranks);
            exit(0);
        }
    while (wait(&status) > 0)
        failed |= status != 0;
    return failed;
}
