// Fully sharded data parallel: who has which shard of the model, how units are gathered to compute
// with, and how their gradients are scattered.
#pragma once
#include "../03_multigpu_launcher/environment.h"
#include "../04_multinode/watchdog.h"
#include "../common/kernels.h"
#include "../common/model.h"
#include "../common/snapshot.h"
#include <math.h>

// Layers that follow each other, gathered and scattered at once.
struct unit {
    int first_layer, end_layer;
    size_t first, parameters; // in the model's flat array
    size_t length;    // floats of a shard: parameters / shards, rounded up; the last has padding
    size_t own;       // where this rank's shard begins in its own flat arrays
    void *whole;      // all its parameters while gathered, of fsdp.type
    float *gradients; // of all its parameters, until they are scattered; may be where whole is
    int gathered;     // whole is there, or will be when ready
    cudaEvent_t ready;
};

// Ranks that share a model are a group; with several groups, each has the whole model.
struct fsdp {
    const char *strategy, *precision;
    long micro_steps,
        micro_step; // parts of a step, each with its forward and backward, and which it is now
    long prefetch;  // the next unit is gathered while one computes
    int shards, shard, replicas; // ranks in a group, which of its shards is here, and groups
    int keep;                    // what forward has gathered stays for backward
    int buffered;             // units are gathered and summed in buffers, not where they are kept
    cudaDataType type;        // of gathered parameters
    size_t size;              // bytes of one
    struct sharding sharding; // all this for snapshots
    size_t own;               // floats of this rank's shards, with padding
    float *parameters, *gradients; // those shards
    ncclComm_t group_comm;         // of the ranks that share the model with this one
    ncclComm_t replica_comm;       // of those that have the same shards
    cudaStream_t stream;           // of what computes
    cudaStream_t comm_stream;      // of what gathers and scatters
    cudaEvent_t event;             // orders the two
    double sent, sent_a_step; // bytes of parameters and gradients that this rank sends, in a ring
    int count;
    struct unit units[MOST_LAYERS];
};

// Decides who has what. Units are layers, or as many as have at most unit_bytes of parameters
// together. Options that cannot be used end the program.
static void fsdp_build(struct fsdp *f, const struct model *m, const struct place *p,
                       size_t unit_bytes) {
    int hybrid = !strcmp(f->strategy, "hybrid"), none = !strcmp(f->strategy, "none");
    f->keep = !strcmp(f->strategy, "grad");
    if (!hybrid && !none && !f->keep && strcmp(f->strategy, "full"))
        wrong_usage("--strategy %s: the strategies are: full, grad, hybrid, none", f->strategy);
    if (strcmp(f->precision, "fp32") && strcmp(f->precision, "bf16"))
        wrong_usage("--precision %s: want fp32 or bf16", f->precision);
    if (hybrid && p->local_world < 1)
        wrong_usage("--strategy hybrid: %s do not say how many ranks this node has", p->launcher);
    f->shards = none ? 1 : hybrid ? p->local_world : p->world;
    f->shard = p->rank % f->shards;
    f->replicas = p->world / f->shards;
    if (f->shards > MOST_SHARDS)
        wrong_usage("--strategy %s: %d shards, at most %d can be", f->strategy, f->shards,
                    MOST_SHARDS);
    if (hybrid && (p->world % f->shards || f->shard != p->local_rank))
        wrong_usage("--strategy hybrid: want as many ranks on every node, numbered node by node");
    f->type = strcmp(f->precision, "bf16") ? CUDA_R_32F : CUDA_R_16BF;
    f->size = f->type == CUDA_R_32F ? 4 : 2;
    f->buffered = f->shards > 1 || f->type == CUDA_R_16BF || f->micro_steps > 1;
    struct unit *last = f->units;
    for (int i = 0; i < m->count; i++) {
        if (i > 0 && (last->parameters + m->layers[i].parameters) * sizeof(float) > unit_bytes)
            last++;
        if (!last->end_layer)
            *last = (struct unit){.first_layer = i, .first = m->layers[i].first};
        last->end_layer = i + 1;
        last->parameters += m->layers[i].parameters;
    }
    f->count = last - f->units + 1;
    f->sharding.shards = f->shards;
    f->sharding.units = f->count;
    for (int i = 0; i < f->count; i++) {
        struct unit *u = &f->units[i];
        f->sharding.unit[i] = u->parameters;
        u->length = (u->parameters + f->shards - 1) / f->shards;
        u->own = f->own;
        f->own += u->length;
    }
}

// Makes the communicators out of that of all ranks, which all of them call.
static void fsdp_join(struct fsdp *f, ncclComm_t comm, int rank, cudaStream_t stream,
                      cudaStream_t comm_stream) {
    f->stream = stream;
    f->comm_stream = comm_stream;
    COLLECTIVE(f->stream, ncclCommSplit(comm, rank / f->shards, rank, &f->group_comm, NULL));
    watch_comm(f->group_comm);
    COLLECTIVE(f->stream, ncclCommSplit(comm, f->shard, rank, &f->replica_comm, NULL));
    watch_comm(f->replica_comm);
    CUDA_CHECK(cudaEventCreateWithFlags(&f->event, cudaEventDisableTiming));
}

// Gives units their buffers: two, used in turn, do for all, but what is kept has one for each.
// Gradients take the place of the parameters that they belong to: see the contract of struct
// layer_kind.
static void fsdp_place(struct fsdp *f, float *parameters, float *gradients) {
    int buffers = f->keep ? f->count : 2;
    size_t bytes[MOST_LAYERS] = {0};
    f->parameters = parameters;
    f->gradients = gradients;
    for (int i = 0; i < f->count; i++)
        bytes[i % buffers] =
            fmax(bytes[i % buffers], f->units[i].length * f->shards * sizeof(float));
    for (int i = 0; i < f->count; i++) {
        struct unit *u = &f->units[i];
        CUDA_CHECK(cudaEventCreateWithFlags(&u->ready, cudaEventDisableTiming));
        u->whole = parameters + u->own;
        u->gradients = gradients + u->own;
        if (f->buffered && i < buffers)
            DEVICE_ALLOC(u->whole, "gathered", bytes[i]);
        else if (f->buffered)
            u->whole = f->units[i - buffers].whole;
        if (f->buffered)
            u->gradients = u->whole;
    }
}

// Places what layers make, [1] to [layers]. Inputs of units stay until backward. With recompute,
// what lies within a unit is made anew there, and units have it in common. Returns the floats per
// sample of the widest layer.
static size_t place_activations(const struct fsdp *f, const struct model *m, size_t bytes_per_float,
                                int recompute, float *activations[]) {
    float *common[MOST_LAYERS] = {0};
    size_t widths[MOST_LAYERS], widest = 0;
    for (int i = 0; i < m->count; i++) {
        widths[i] = m->layers[i].outputs + m->layers[i].workspace;
        widest = fmax(widest, widths[i]);
    }
    for (const struct unit *u = f->units; u < f->units + f->count; u++)
        for (int i = u->first_layer; i < u->end_layer; i++) {
            float **inner = recompute && i + 1 < u->end_layer ? &common[i - u->first_layer] : NULL;
            if (!inner || !*inner)
                DEVICE_ALLOC(activations[i + 1], "activations",
                             bytes_per_float * (inner ? widest : widths[i]));
            if (inner && !*inner)
                *inner = activations[i + 1];
            if (inner)
                activations[i + 1] = *inner;
        }
    return widest;
}

// This rank's shards of what a model of that seed begins with. Padding is zero, and stays it.
static void fsdp_initialise(struct fsdp *f, const struct model *m, uint64_t seed) {
    CUDA_CHECK(cudaMemsetAsync(f->parameters, 0, f->own * sizeof(float), f->stream));
    for (struct unit *u = f->units; u < f->units + f->count; u++)
        for (const struct layer *l = m->layers + u->first_layer; l < m->layers + u->end_layer;
             l++) {
            size_t begin = u->first + f->shard * u->length, end = begin + u->length;
            size_t from = fmax(begin, l->first), to = fmin(end, l->first + l->parameters);
            if (from < to)
                l->kind->initialise(l, f->parameters + u->own + (from - begin), from - l->first,
                                    to - from, seed, f->stream);
        }
}

// The communication goes on when what has been queued for the device so far is done.
static void comm_waits(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->comm_stream, f->event, 0));
}

// Queues the all-gather of a unit's parameters, unless that is queued. All that computes with the
// unit that had the buffer before must have been queued.
static void gather_unit(struct fsdp *f, struct unit *u) {
    const void *shard = f->parameters + u->own;
    if (u->gathered)
        return;
    comm_waits(f);
    if (f->type == CUDA_R_16BF) {
        uint16_t *rounded = (uint16_t *)u->whole + f->shard * u->length;
        to_bfloat16(rounded, shard, u->length, f->comm_stream);
        shard = rounded;
    }
    // A gather copies bytes, whatever they mean; NCCL before 2.24 hides ncclBfloat16 from C.
    COLLECTIVE(f->comm_stream, ncclAllGather(shard, u->whole, u->length * f->size, ncclChar,
                                             f->group_comm, f->comm_stream));
    CUDA_CHECK(cudaEventRecord(u->ready, f->comm_stream));
    f->sent += (double)u->length * f->size * (f->shards - 1);
    u->gathered = 1;
}

// Makes the device wait until unit number n is there. While that one computes, the next is
// gathered.
static void fetch_unit(struct fsdp *f, int n, int next) {
    if (!f->buffered) // DDP: all is here, and as in step 2 nothing waits for the sums that are on
                      // their way
        return;
    gather_unit(f, &f->units[n]);
    if (f->prefetch && next >= 0 && next < f->count)
        gather_unit(f, &f->units[next]);
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->units[n].ready, 0));
}

// Queues the sums of a unit's gradients over all ranks; each rank gets those of its shard. They are
// on their way while the next unit computes, and this one is no longer gathered.
static void scatter_unit(struct fsdp *f, struct unit *u) {
    float *sums = f->gradients + u->own,
          *shard = f->micro_step ? u->gradients + f->shard * u->length : sums;
    size_t padding = u->length * f->shards - u->parameters;
    if (padding)
        CUDA_CHECK(
            cudaMemsetAsync(u->gradients + u->parameters, 0, padding * sizeof(float), f->stream));
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclReduceScatter(u->gradients, shard, u->length, ncclFloat, ncclSum,
                                                 f->group_comm, f->comm_stream));
    f->sent += (double)u->length * sizeof(float) * (f->shards - 1);
    if (f->micro_step)
        add_to(sums, shard, u->length, f->comm_stream);
    if (f->micro_step == f->micro_steps - 1) {
        COLLECTIVE(f->comm_stream, ncclAllReduce(sums, sums, u->length, ncclFloat, ncclSum,
                                                 f->replica_comm, f->comm_stream));
        f->sent += 2. * u->length * sizeof(float) * (f->replicas - 1) / f->replicas;
    }
    u->gathered = 0;
}

// Where a layer's parameters are while its unit is gathered.
static const void *parameters_of(const struct fsdp *f, const struct unit *u,
                                 const struct layer *l) {
    return (const char *)u->whole + (l->first - u->first) * f->size;
}
