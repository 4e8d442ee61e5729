// Step 5's sharding for large models. A unit is one layer or several layers in a row, which are
// gathered and scattered together. A group is the ranks that shard one copy of the model. With
// several groups, the ranks with the same shard, one in each group, are replicas.
#pragma once
#include "02_multigpu_fork/nccl_check.h"
#include "03_multigpu_launcher/environment.h"
#include "04_multinode/watchdog.h"
#include "common/device.h"
#include "common/kernels.h"
#include "common/model.h"
#include "common/options.h"
#include "common/shards.h"
#include <math.h>

struct fsdp {
    const struct model *model;
    const char *strategy, *precision; // of the options
    int micro_steps, micro_step;      // parts of a batch, and the number of the current one
    int prefetch;                     // 1: the next unit is gathered while this one computes
    int shards, shard, replicas;      // ranks of a group, this rank's number in it, and groups
    int keep;                         // backward uses what forward has gathered
    int buffered;      // units are gathered and summed in buffers, not where they are kept
    cudaDataType type; // of gathered parameters
    size_t size;       // bytes of one
    size_t count;      // floats of this rank's shard: its pieces of all units
    float *parameters, *gradients; // the shard, on the device
    float *states;                 // of the optimizer, count floats for each state of a parameter
    int unit_count;
    struct unit {
        int first_layer, end_layer;
        size_t begin, parameters; // in the model's flat array
        size_t count; // floats of a piece: parameters / shards, rounded up; the last has padding
        size_t first; // where this rank's piece begins in its shard
        void *whole;  // all parameters while gathered, of fsdp.type
        float *gradients;  // of all parameters, until they are scattered; may be where whole is
        int gathered;      // whole is there, or on its way
        cudaEvent_t ready; // it has arrived
    } units[MOST_LAYERS];
    struct sharding sharding; // the same sizes, for snapshots
    ncclComm_t group_comm;    // of the ranks of this rank's group
    ncclComm_t replica_comm;  // of the ranks with the same shard
    cudaStream_t stream;      // computes; the trainer's
    cudaStream_t comm_stream; // gathers and sums beside computing
    cudaEvent_t event;        // orders the two streams
    double sent, sent_a_step; // bytes of parameters and gradients that this rank sends, in a ring
};

// Decides which ranks form a group. Options that cannot be used end the program.
static void form_groups(struct fsdp *f, const struct place *p) {
    int hybrid = !strcmp(f->strategy, "hybrid"), none = !strcmp(f->strategy, "none");
    f->keep = !strcmp(f->strategy, "grad");
    if (!hybrid && !none && !f->keep && strcmp(f->strategy, "full"))
        wrong_usage("--strategy %s: the strategies are: full, grad, hybrid, none", f->strategy);
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
}

// A unit is a layer, or as many layers as have at most unit_bytes of parameters together. Layers
// without parameters belong to the unit before them.
static void cut_units(struct fsdp *f, size_t unit_bytes) {
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

// Decides which rank has what. The caller has set the fields from the options.
static void units_build(struct fsdp *f, const struct model *m, const struct place *p,
                        size_t unit_bytes) {
    f->model = m;
    form_groups(f, p);
    if (strcmp(f->precision, "fp32") && strcmp(f->precision, "bf16"))
        wrong_usage("--precision %s: want fp32 or bf16", f->precision);
    f->type = strcmp(f->precision, "bf16") ? CUDA_R_32F : CUDA_R_16BF;
    f->size = f->type == CUDA_R_32F ? 4 : 2;
    f->buffered = f->shards > 1 || f->type == CUDA_R_16BF || f->micro_steps > 1;
    f->sent_a_step = -1;
    cut_units(f, unit_bytes);
}

// Splits the communicator of all ranks, which all of them call. Without overlap, the collectives
// run on the stream that computes.
static void units_join(struct fsdp *f, ncclComm_t comm, int rank, cudaStream_t stream,
                       int overlap) {
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

// Allocates the shard with so many optimizer states per parameter, and buffers: two, used in turn,
// are enough for all units, but with keep each unit has its own.
static void units_place(struct fsdp *f, int states) {
    int buffers = f->keep ? f->unit_count : 2;
    size_t bytes[MOST_LAYERS] = {0}, shard = f->count * sizeof(float);
    DEVICE_ALLOC(f->parameters, "parameters", shard);
    DEVICE_ALLOC(f->gradients, "gradients", shard);
    DEVICE_ALLOC(f->states, "optimizer", states * shard);
    for (int i = 0; i < f->unit_count; i++)
        bytes[i % buffers] =
            fmax(bytes[i % buffers], f->units[i].count * f->shards * sizeof(float));
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

// Allocates the outputs of all layers, activations[1] to [layers]. Without recompute, each layer
// has its own. With recompute, only the last layer of a unit has: the outputs inside a unit are
// computed again in backward, and the units use the same memory for them. Returns the floats per
// sample of the widest layer.
static size_t place_activations(const struct fsdp *f, size_t bytes_per_float, int recompute,
                                float *activations[]) {
    const struct model *m = f->model;
    float *common[MOST_LAYERS] = {0};
    size_t widths[MOST_LAYERS], widest = 0;
    for (int i = 0; i < m->count; i++) {
        widths[i] = m->layers[i].outputs + m->layers[i].workspace;
        widest = fmax(widest, widths[i]);
    }
    for (const struct unit *u = f->units; u < f->units + f->unit_count; u++)
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

// Sets the shard to its part of the initial parameters, which depend only on the seed and the
// index. The padding is zero and stays zero.
static void units_initialise(struct fsdp *f, uint64_t seed) {
    const struct layer *layers = f->model->layers;
    CUDA_CHECK(cudaMemsetAsync(f->parameters, 0, f->count * sizeof(float), f->stream));
    for (struct unit *u = f->units; u < f->units + f->unit_count; u++)
        for (const struct layer *l = layers + u->first_layer; l < layers + u->end_layer; l++) {
            size_t begin = u->begin + f->shard * u->count, end = begin + u->count;
            size_t from = fmax(begin, l->first), to = fmin(end, l->first + l->parameters);
            if (from < to)
                l->kind->initialise(l, f->parameters + u->first + (from - begin), from - l->first,
                                    to - from, seed, f->stream);
        }
}

// The communication stream waits for all computing that the host has queued so far.
static void comm_waits(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->comm_stream, f->event, 0));
}

// Queues the all-gather of a unit, unless it is queued. The unit that used the buffer before must
// have been queued to compute.
static void gather_unit(struct fsdp *f, struct unit *u) {
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

// Makes the computing that the host queues from now on wait until unit n is gathered. The host does
// not wait. next is the unit that computes after this one, or no unit's number.
static void fetch_unit(struct fsdp *f, int n, int next) {
    if (!f->buffered) // nothing is gathered, and no sum must be waited for
        return;
    gather_unit(f, &f->units[n]);
    if (f->prefetch && next >= 0 && next < f->unit_count)
        gather_unit(f, &f->units[next]);
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->units[n].ready, 0));
}

// The parameters of a layer of a gathered unit.
static const void *gathered_layer(const struct fsdp *f, const struct unit *u,
                                  const struct layer *l) {
    return (const char *)u->whole + (l->first - u->begin) * f->size;
}

// Queues the sum over all ranks of a unit's gradients; each rank gets the sum of its piece. The
// next units compute meanwhile. The pieces of all parts of a batch are added up, and the replicas
// add theirs after the last part.
static void scatter_unit(struct fsdp *f, struct unit *u) {
    float *sums = f->gradients + u->first,
          *piece = f->micro_step ? u->gradients + f->shard * u->count : sums;
    size_t padding = u->count * f->shards - u->parameters;
    if (padding)
        CUDA_CHECK(
            cudaMemsetAsync(u->gradients + u->parameters, 0, padding * sizeof(float), f->stream));
    comm_waits(f);
    COLLECTIVE(f->comm_stream, ncclReduceScatter(u->gradients, piece, u->count, ncclFloat, ncclSum,
                                                 f->group_comm, f->comm_stream));
    f->sent += (double)u->count * sizeof(float) * (f->shards - 1);
    if (f->micro_step)
        add_to(sums, piece, u->count, f->comm_stream);
    if (f->micro_step == f->micro_steps - 1) {
        COLLECTIVE(f->comm_stream, ncclAllReduce(sums, sums, u->count, ncclFloat, ncclSum,
                                                 f->replica_comm, f->comm_stream));
        f->sent += 2. * u->count * sizeof(float) * (f->replicas - 1) / f->replicas;
    }
    u->gathered = 0;
}

// The work that the host queues from now on waits for all these sums.
static void units_finish(struct fsdp *f) {
    CUDA_CHECK(cudaEventRecord(f->event, f->comm_stream));
    CUDA_CHECK(cudaStreamWaitEvent(f->stream, f->event, 0));
}
