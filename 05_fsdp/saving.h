// Snapshots of a model that is sharded: as it is, or gathered into one file.
#pragma once
#include "fsdp.h"
#include <stdlib.h>

// Gathers all values of a flat array of shards, for this rank where values is not NULL. On the
// device nobody has more of it than a unit.
static void collect(struct fsdp *f, const float *shards, float *values) {
    for (struct unit *u = f->units; u < f->units + f->count; u++) {
        COLLECTIVE(f->stream, ncclAllGather(shards + u->own, u->whole, u->length, ncclFloat,
                                            f->group_comm, f->stream));
        if (values)
            CUDA_CHECK(cudaMemcpyAsync(values + u->first, u->whole, u->parameters * sizeof(float),
                                       cudaMemcpyDeviceToHost, f->stream));
        wait_for(f->stream);
    }
}

// One file of all that is on the device, by rank 0. state says where training stands.
static int save_full(struct fsdp *f, const char *path, const struct snapshot *state,
                     const float *states, size_t all, int rank, char why[WHY_SIZE]) {
    int per_parameter = state->states / state->parameters;
    struct snapshot *s = NULL;
    if (rank == 0) {
        s = snapshot_new(state->model, state->optimizer, all, per_parameter * all, 1);
        s->seed = state->seed;
        s->batch = state->batch;
        s->epochs = state->epochs;
        s->step = state->step;
        s->sums = state->sums;
    }
    collect(f, f->parameters, s ? s->values : NULL);
    for (int i = 0; i < per_parameter; i++)
        collect(f, states + i * f->own, s ? s->values + (i + 1) * all : NULL);
    int failed = s && snapshot_save(path, s, why);
    free(s);
    return failed;
}

// A file for each shard. When all are there, rank 0 makes them the snapshot.
static int save_shards(struct fsdp *f, const char *path, struct snapshot *state, int rank,
                       char why[WHY_SIZE]) {
    if (snapshot_save_shard(path, state, &f->sharding, f->shard, why))
        return -1;
    float *any =
        f->units[0]
            .gradients; // what is in the buffer does not matter, only that all ranks are here
    COLLECTIVE(f->stream, ncclAllReduce(any, any, 1, ncclFloat, ncclSum, f->group_comm, f->stream));
    wait_for(f->stream);
    return rank == 0 && snapshot_commit(path, state, &f->sharding, why);
}

// Saves what is on the device, and in state. Only the ranks of the first group have anything to do.
static int fsdp_save(struct fsdp *f, const char *path, struct snapshot *state, const float *states,
                     size_t all, int rank, int full, char why[WHY_SIZE]) {
    if (f->shards == 1)
        return snapshot_save(path, state, why);
    return full ? save_full(f, path, state, states, all, rank, why)
                : save_shards(f, path, state, rank, why);
}
