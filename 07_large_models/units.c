#include "07_large_models/units.h"
#include "04_multinode/watchdog.h"
#include "common/base/minmax.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/kernels/kernels.h"
#include "zoo/layers/inner.h"

const char *strategy_name(int i) {
    static const char *const names[] = {"full", "grad", "hybrid", "none", NULL};
    return names[i];
}

const char *precision_name(int i) {
    static const char *const names[] = {"fp32", "bf16", NULL};
    return names[i];
}

// Decides which ranks form a group.
static void form_groups(struct units *f, const struct place *p) {
    int none = f->strategy == NONE, hybrid = f->strategy == HYBRID;
    f->keep = f->strategy == GRAD;
    if (hybrid && p->local_world < 1)
        wrong_usage("--strategy hybrid: the launcher does not say how many ranks this node has "
                    "(it is known by %s)",
                    p->launcher);
    f->shards = none ? 1 : hybrid ? p->local_world : p->world;
    f->shard = p->rank % f->shards;
    f->replicas = p->world / f->shards;
    if (f->shards > MOST_SHARDS)
        wrong_usage("--strategy %s: %d shards, but the limit is %d", strategy_name(f->strategy),
                    f->shards, MOST_SHARDS);
    if (hybrid && (p->world % f->shards || f->shard != p->local_rank))
        wrong_usage("--strategy hybrid: every node needs the same number of ranks, with "
                    "consecutive numbers");
}

// A unit is a layer, or several layers with at most unit_bytes of parameters together. Layers
// without parameters belong to the unit before them. NCCL gathers and scatters equal parts, so the
// last piece of a unit may end with padding.
static void form_units(struct units *f, size_t unit_bytes) {
    const struct model *m = f->model;
    struct unit *last = f->units;
    for (int i = 0; i < m->count; i++) {
        if (i > 0 && m->layers[i].parameters > 0 &&
            (last->parameters + m->layers[i].parameters) * sizeof(float) > unit_bytes)
            last++;
        if (!last->end_layer)
            *last = (struct unit){.first_layer = i, .begin = m->layers[i].first};
        last->end_layer = i + 1;
        last->parameters += m->layers[i].parameters;
    }
    f->unit_count = last - f->units + 1;
    f->sharding.shards = f->shards;
    f->sharding.units = f->unit_count;
    for (int i = 0; i < f->unit_count; i++) {
        struct unit *u = &f->units[i];
        f->sharding.unit[i] = u->parameters;
        u->count = (u->parameters + f->shards - 1) / f->shards;
        u->first = f->count;
        f->count += u->count;
    }
}

void units_build(struct units *f, struct model *model, const struct place *place,
                 size_t unit_bytes) {
    f->model = model;
    form_groups(f, place);
    f->type = f->precision == BF16 ? CUDA_R_16BF : CUDA_R_32F;
    f->size = f->type == CUDA_R_32F ? 4 : 2;
    f->buffered = f->shards > 1 || f->type == CUDA_R_16BF || f->micro_batches > 1;
    f->sent_a_step = -1;
    store_values(model, f->type);
    form_units(f, unit_bytes);
}

void units_join(struct units *f, ncclComm_t comm, int rank, cudaStream_t stream, int overlap) {
    f->stream = f->comm_stream = stream;
    if (overlap)
        CUDA_CHECK(cudaStreamCreate(&f->comm_stream));
    COLLECTIVE(f->stream, ncclCommSplit(comm, rank / f->shards, rank, &f->group_comm, NULL));
    watch_comm(f->group_comm);
    COLLECTIVE(f->stream, ncclCommSplit(comm, f->shard, rank, &f->replica_comm, NULL));
    watch_comm(f->replica_comm);
    CUDA_CHECK(cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming));
    for (struct unit *u = f->units; u < f->units + f->unit_count; u++)
        CUDA_CHECK(cudaEventCreateWithFlags(&u->ready, cudaEventDisableTiming));
}

// Two buffers, used in turn, are enough for all units. With keep, each unit has its own buffer.
void units_allocate(struct units *f, int state_per_parameter) {
    int buffers = f->keep ? f->unit_count : 2;
    size_t bytes[MOST_LAYERS] = {0}, shard = f->count * sizeof(float);
    DEVICE_ALLOC(f->parameters, "parameters", shard);
    DEVICE_ALLOC(f->gradients, "gradients", shard);
    DEVICE_ALLOC(f->optimizer_state, "optimizer", state_per_parameter * shard);
    CUDA_CHECK(cudaMemsetAsync(f->optimizer_state, 0, state_per_parameter * shard, f->stream));
    for (int i = 0; i < f->unit_count; i++)
        bytes[i % buffers] =
            max_size(bytes[i % buffers], f->units[i].count * f->shards * sizeof(float));
    for (int i = 0; i < f->unit_count; i++) {
        struct unit *u = &f->units[i];
        u->whole = f->parameters + u->first;
        u->gradients = f->gradients + u->first;
        if (f->buffered && i < buffers)
            DEVICE_ALLOC(u->whole, "gathered", bytes[i]);
        else if (f->buffered)
            u->whole = f->units[i - buffers].whole;
        if (f->buffered)
            u->gradients = u->whole;
    }
}

// Backward recomputes the outputs inside a unit, one unit at a time, so the units can share memory
// for them. Only the last outputs of each unit have memory of their own then, without workspace.
size_t allocate_activations(const struct units *f, size_t bytes_per_float, int recompute,
                            float *outputs[], float *activations[]) {
    float *shared[MOST_LAYERS] = {0}; // [n]: for layer n of each unit
    const struct layer *layers = f->model->layers;
    size_t widest = 0, gradient = 0;
    for (int i = 0; i < f->model->count; i++) {
        widest = max_size(widest, layers[i].outputs + layers[i].workspace);
        gradient = max_size(gradient, layers[i].outputs);
    }
    for (const struct unit *u = f->units; u < f->units + f->unit_count; u++)
        for (int i = u->first_layer; i < u->end_layer; i++) {
            int n = i - u->first_layer, last = i + 1 == u->end_layer;
            if (!recompute || (last && layers[i].workspace == 0))
                DEVICE_ALLOC(outputs[i], "activations",
                             bytes_per_float * (layers[i].outputs + layers[i].workspace));
            else if (!shared[n])
                DEVICE_ALLOC(shared[n], "activations", bytes_per_float * widest);
            if (!outputs[i])
                outputs[i] = shared[n];
            activations[i + 1] = outputs[i];
            if (last && outputs[i] == shared[n])
                DEVICE_ALLOC(activations[i + 1], "activations",
                             bytes_per_float * layers[i].outputs);
        }
    return gradient;
}

// The padding is zero, and its gradients are zero, so it stays zero.
void units_initialise(struct units *f, uint64_t seed) {
    shard_initialise(&f->sharding, f->shard, f->model, f->parameters, seed, f->stream);
}

// Makes the communication stream wait for all computation that the host has queued so far.
static void comm_waits(struct units *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->comm_stream, f->event, 0));
}

// Queues the all-gather of a unit, unless it is queued. The host must have queued the computation
// of the unit that used the buffer before.
static void gather_unit(struct units *f, struct unit *u) {
    const void *piece = f->parameters + u->first;
    if (u->gathered)
        return;
    comm_waits(f);
    if (f->type == CUDA_R_16BF) {
        uint16_t *rounded = (uint16_t *)u->whole + f->shard * u->count;
        to_bfloat16(rounded, piece, u->count, f->comm_stream);
        piece = rounded;
    }
    // As bytes: NCCL before 2.24 hides ncclBfloat16 from C.
    COLLECTIVE(f->comm_stream, ncclAllGather(piece, u->whole, u->count * f->size, ncclChar,
                                             f->group_comm, f->comm_stream));
    CUDA_CHECK(cudaEventRecord(u->ready, f->comm_stream));
    f->sent += (double)u->count * f->size * (f->shards - 1);
    u->gathered = 1;
}

void fetch_unit(struct units *f, int n, int next) {
    if (!f->buffered) // the rank has all parameters, and no sum is written where it computes
        return;
    gather_unit(f, &f->units[n]);
    if (f->prefetch && next >= 0 && next < f->unit_count)
        gather_unit(f, &f->units[next]);
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->units[n].ready, 0));
}

const void *gathered_layer(const struct units *f, const struct unit *u, const struct layer *l) {
    return (const char *)u->whole + (l->first - u->begin) * f->size;
}

// The sum runs during backward of the units before this one.
void scatter_unit(struct units *f, struct unit *u) {
    float *sums = f->gradients + u->first;
    float *piece = f->micro_batch ? u->gradients + f->shard * u->count : sums;
    size_t padding = u->count * f->shards - u->parameters;
    if (padding)
        CUDA_CHECK(
            cudaMemsetAsync(u->gradients + u->parameters, 0, padding * sizeof(float), f->stream));
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclReduceScatter(u->gradients, piece, u->count, ncclFloat, ncclSum,
                                                 f->group_comm, f->comm_stream));
    f->sent += (double)u->count * sizeof(float) * (f->shards - 1);
    if (f->micro_batch)
        add_to(sums, piece, u->count, f->comm_stream);
    if (f->micro_batch == f->micro_batches - 1) {
        COLLECTIVE(f->comm_stream, ncclAllReduce(sums, sums, u->count, ncclFloat, ncclSum,
                                                 f->replica_comm, f->comm_stream));
        f->sent += 2. * u->count * sizeof(float) * (f->replicas - 1) / f->replicas;
    }
    u->gathered = 0;
}

void units_finish(struct units *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->comm_stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->event, 0));
}
