#include "05_fsdp/fsdp.h"
#include "04_multinode/watchdog.h"
#include "common/base/minmax.h"
#include "common/device/device.h"

// NCCL gathers and scatters equal parts, so the last piece of a layer may end with padding.
void fsdp_build(struct fsdp *f, const struct model *model, int rank, int world, int prefetch) {
    *f = (struct fsdp){.model = model, .rank = rank, .world = world, .prefetch = prefetch};
    f->sharding.shards = world;
    f->sharding.units = model->count;
    for (int i = 0; i < model->count; i++) {
        size_t parameters = model->layers[i].parameters;
        f->sharding.unit[i] = parameters;
        f->pieces[i].count = (parameters + world - 1) / world;
        f->pieces[i].first = f->count;
        f->count += f->pieces[i].count;
    }
}

void fsdp_join(struct fsdp *f, ncclComm_t comm, cudaStream_t stream, int overlap) {
    f->comm = comm;
    f->stream = f->comm_stream = stream;
    if (overlap)
        CUDA_CHECK(cudaStreamCreate(&f->comm_stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming));
    for (int i = 0; i < f->model->count; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&f->pieces[i].ready, cudaEventDisableTiming));
}

// Two buffers are enough: one for the layer that computes, one for the next layer.
void fsdp_allocate(struct fsdp *f, int state_per_parameter) {
    size_t bytes[2] = {0}, shard = f->count * sizeof(float);
    for (int i = 0; i < f->model->count; i++)
        bytes[i % 2] = max_size(bytes[i % 2], f->pieces[i].count * f->world * sizeof(float));
    DEVICE_ALLOC(f->parameters, "parameters", shard);
    DEVICE_ALLOC(f->gradients, "gradients", shard);
    DEVICE_ALLOC(f->optimizer_state, "optimizer", state_per_parameter * shard);
    CUDA_CHECK(cudaMemsetAsync(f->optimizer_state, 0, state_per_parameter * shard, f->stream));
    DEVICE_ALLOC(f->buffers[0], "gathered", bytes[0]);
    DEVICE_ALLOC(f->buffers[1], "gathered", bytes[1]);
}

// The padding is zero, and its gradients are zero, so it stays zero.
void fsdp_initialise(struct fsdp *f, uint64_t seed) {
    CUDA_CHECK(cudaMemsetAsync(f->parameters, 0, f->count * sizeof(float), f->stream));
    for (int i = 0; i < f->model->count; i++) {
        const struct layer *l = &f->model->layers[i];
        size_t begin = f->rank * f->pieces[i].count;
        size_t end = min_size(begin + f->pieces[i].count, l->parameters);
        if (begin < end)
            l->kind->initialise(l, f->parameters + f->pieces[i].first, begin, end - begin, seed,
                                f->stream);
    }
}

// Makes the communication stream wait for all computation that the host has queued so far.
static void comm_waits(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->comm_stream, f->event, 0));
}

// Queues the all-gather of a layer, unless it is queued. The host must have queued the computation
// of the layer that used the buffer before.
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

float *fsdp_gather(struct fsdp *f, int layer, int next) {
    start_gather(f, layer);
    if (f->prefetch && next >= 0 && next < f->model->count)
        start_gather(f, next);
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->pieces[layer].ready, 0));
    f->pieces[layer].gathered = 0; // another layer uses the buffer soon
    return f->buffers[layer % 2];
}

// The sum runs during backward of the layers before this one.
void fsdp_scatter(struct fsdp *f, int layer) {
    const struct piece *p = &f->pieces[layer];
    float *whole = f->buffers[layer % 2];
    size_t parameters = f->model->layers[layer].parameters;
    size_t padding = p->count * f->world - parameters;
    if (padding)
        CUDA_CHECK(cudaMemsetAsync(whole + parameters, 0, padding * sizeof(float), f->stream));
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclReduceScatter(whole, f->gradients + p->first, p->count,
                                                 ncclFloat, ncclSum, f->comm, f->comm_stream));
}

void fsdp_finish(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->comm_stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->event, 0));
}

// Each rank saves its shard in a file of its own. When all files are there, rank 0 makes them the
// snapshot. A single rank saves one plain file.
int fsdp_save(struct fsdp *f, const char *path, const struct snapshot *state, double *number,
              char why[WHY_SIZE]) {
    if (f->world == 1)
        return snapshot_save(path, state, why);
    int failed = snapshot_save_shard(path, state, &f->sharding, f->rank, why);
    barrier(number, f->comm, f->stream);
    if (failed) {
        remove_shards(path);
        return -1;
    }
    barrier(number, f->comm, f->stream); // ends this rank if another has failed
    return f->rank == 0 ? snapshot_commit(path, state, &f->sharding, why) : 0;
}
