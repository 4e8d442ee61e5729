// Fully sharded data parallel. Every layer is cut into one piece per rank. A rank stores its
// pieces, called its shard: 1/N of the parameters, gradients and optimizer states. All ranks gather
// a layer when they compute with it.
#pragma once
#include "02_multigpu_fork/nccl_check.h"
#include "04_multinode/watchdog.h"
#include "common/device.h"
#include "common/kernels.h"
#include "common/model.h"
#include "common/options.h"
#include "common/shards.h"

struct fsdp {
    const struct model *model;
    int rank, world;
    int prefetch; // 1: the next layer is gathered while this one computes
    size_t count; // floats of this rank's shard: its pieces of all layers, one after the other
    float *parameters, *gradients; // the shard, on the device
    float *states;                 // of the optimizer, count floats for each state of a parameter
    float *buffers[2];             // for whole layers: even layers use [0], odd ones [1]
    struct piece {                 // of a layer, on each rank
        size_t
            count; // floats: the layer's parameters / world, rounded up; the last ends with padding
        size_t first;      // where this rank's begins in its shard
        int gathered;      // the whole layer is on its way to its buffer
        cudaEvent_t ready; // it has arrived
    } pieces[MOST_LAYERS];
    struct sharding sharding; // the same sizes, for snapshots
    ncclComm_t comm;          // of all ranks; the trainer's
    cudaStream_t stream;      // computes; the trainer's
    cudaStream_t comm_stream; // gathers and sums beside computing
    cudaEvent_t event;        // orders the two streams
};

// Cuts each layer into equal pieces, because NCCL gathers and scatters equal parts.
static void fsdp_build(struct fsdp *f, const struct model *m, int rank, int world, int prefetch) {
    *f = (struct fsdp){.model = m, .rank = rank, .world = world, .prefetch = prefetch};
    f->sharding.shards = world;
    f->sharding.units = m->count;
    for (int i = 0; i < m->count; i++) {
        size_t parameters = m->layers[i].parameters;
        f->sharding.unit[i] = parameters;
        f->pieces[i].count = (parameters + world - 1) / world;
        f->pieces[i].first = f->count;
        f->count += f->pieces[i].count;
    }
}

// Without overlap, the collectives run on the stream that computes.
static void fsdp_join(struct fsdp *f, ncclComm_t comm, cudaStream_t stream, int overlap) {
    f->comm = comm;
    f->stream = f->comm_stream = stream;
    if (overlap)
        CUDA_CHECK(cudaStreamCreate(&f->comm_stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming));
    for (int i = 0; i < f->model->count; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&f->pieces[i].ready, cudaEventDisableTiming));
}

// Allocates the shard with so many optimizer states per parameter, and two buffers, which are
// enough: one for the layer that computes, one for the next.
static void fsdp_place(struct fsdp *f, int states) {
    size_t bytes[2] = {0}, shard = f->count * sizeof(float);
    for (int i = 0; i < f->model->count; i++) {
        size_t whole = f->pieces[i].count * f->world * sizeof(float);
        bytes[i % 2] = whole > bytes[i % 2] ? whole : bytes[i % 2];
    }
    DEVICE_ALLOC(f->parameters, "parameters", shard);
    DEVICE_ALLOC(f->gradients, "gradients", shard);
    DEVICE_ALLOC(f->states, "optimizer", states * shard);
    DEVICE_ALLOC(f->buffers[0], "gathered", bytes[0]);
    DEVICE_ALLOC(f->buffers[1], "gathered", bytes[1]);
}

// Sets the shard to its part of the initial parameters, which depend only on the seed and the
// index. The padding is zero and stays zero.
static void fsdp_initialise(struct fsdp *f, uint64_t seed) {
    CUDA_CHECK(cudaMemsetAsync(f->parameters, 0, f->count * sizeof(float), f->stream));
    for (int i = 0; i < f->model->count; i++) {
        const struct layer *l = &f->model->layers[i];
        size_t begin = f->rank * f->pieces[i].count, end = begin + f->pieces[i].count;
        end = end < l->parameters ? end : l->parameters;
        if (begin < end)
            l->kind->initialise(l, f->parameters + f->pieces[i].first, begin, end - begin, seed,
                                f->stream);
    }
}

// The communication stream waits for all computing that the host has queued so far.
static void comm_waits(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->comm_stream, f->event, 0));
}

// Queues the all-gather of a layer, unless it is queued. The layer that used the buffer before must
// have been queued to compute.
static void start_gather(struct fsdp *f, int layer) {
    struct piece *p = &f->pieces[layer];
    if (p->gathered)
        return;
    p->gathered = 1;
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclAllGather(f->parameters + p->first, f->buffers[layer % 2],
                                             p->count, ncclFloat, f->comm, f->comm_stream));
    CUDA_CHECK(cudaEventRecord(p->ready, f->comm_stream));
}

// Returns the parameters of the whole layer, for the work that the host queues from now on until
// it gathers the layer after the next. The host does not wait. next is the layer that computes
// after this one, or no layer's number.
static float *fsdp_gather(struct fsdp *f, int layer, int next) {
    start_gather(f, layer);
    if (f->prefetch && next >= 0 && next < f->model->count)
        start_gather(f, next);
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->pieces[layer].ready, 0));
    f->pieces[layer].gathered = 0; // the buffer is soon another layer's
    return f->buffers[layer % 2];
}

// Queues the sum over all ranks of a layer's gradients, which are where fsdp_gather put its
// parameters. Each rank gets the sum of its piece. The next layers compute meanwhile.
static void fsdp_scatter(struct fsdp *f, int layer) {
    const struct piece *p = &f->pieces[layer];
    float *whole = f->buffers[layer % 2];
    size_t parameters = f->model->layers[layer].parameters,
           padding = p->count * f->world - parameters;
    if (padding)
        CUDA_CHECK(cudaMemsetAsync(whole + parameters, 0, padding * sizeof(float), f->stream));
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclReduceScatter(whole, f->gradients + p->first, p->count,
                                                 ncclFloat, ncclSum, f->comm, f->comm_stream));
}

// The work that the host queues from now on waits for all these sums.
static void fsdp_finish(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->comm_stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->event, 0));
}

// Saves a snapshot: each rank a file with its shard, whose values the caller has put into state.
// When all files are there, rank 0 makes them the snapshot. A single rank saves one plain file.
// Returns 0, or -1 with the reason in why.
static int fsdp_save(struct fsdp *f, const char *path, const struct snapshot *state,
                     char why[WHY_SIZE]) {
    if (f->world == 1)
        return snapshot_save(path, state, why);
    if (snapshot_save_shard(path, state, &f->sharding, f->rank, why))
        return -1;
    COLLECTIVE(f->stream, ncclAllReduce(f->buffers[0], f->buffers[0], 1, ncclFloat, ncclSum,
                                        f->comm, f->stream)); // only to wait for all ranks
    wait_for(f->stream);
    return f->rank == 0 ? snapshot_commit(path, state, &f->sharding, why) : 0;
}
