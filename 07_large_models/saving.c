#include "07_large_models/saving.h"
#include "04_multinode/watchdog.h"
#include "common/device/device.h"
#include <stdlib.h>

const char *saving_name(int i) {
    static const char *const names[] = {"sharded", "full", NULL};
    return names[i];
}

// Copies a sharded array to host memory: values on rank 0, NULL on the others. The ranks gather it
// unit by unit, because one device may have no room for the whole array.
static void collect(struct units *f, const float *shard, float *values) {
    for (struct unit *u = f->units; u < f->units + f->unit_count; u++) {
        COLLECTIVE(f->stream, ncclAllGather(shard + u->first, u->whole, u->count, ncclFloat,
                                            f->group_comm, f->stream));
        if (values)
            CUDA_CHECK(cudaMemcpyAsync(values + u->begin, u->whole, u->parameters * sizeof(float),
                                       cudaMemcpyDeviceToHost, f->stream));
        wait_for(f->stream);
    }
}

// Rank 0 saves the parameters and optimizer state of all ranks in one file.
static int save_full(struct units *f, const char *path, const struct snapshot *state, int rank,
                     char why[WHY_SIZE]) {
    int per_parameter = state->state_size / state->parameters;
    size_t all = f->model->parameters;
    struct snapshot *s = NULL;
    if (rank == 0)
        s = snapshot_like(state, all, per_parameter * all);
    collect(f, f->parameters, s ? s->values : NULL);
    for (int i = 0; i < per_parameter; i++)
        collect(f, f->optimizer_state + i * f->count, s ? s->values + (i + 1) * all : NULL);
    int failed = s && snapshot_save(path, s, why);
    free(s);
    return failed;
}

// Each rank saves its shard in a file of its own. When all files are there, rank 0 makes them the
// snapshot.
static int save_shards(struct units *f, const char *path, const struct snapshot *state, int rank,
                       double *number, char why[WHY_SIZE]) {
    int failed = snapshot_save_shard(path, state, &f->sharding, f->shard, why);
    barrier(number, f->group_comm, f->stream);
    if (failed) {
        remove_shards(path);
        return -1;
    }
    barrier(number, f->group_comm, f->stream); // ends this rank if another has failed
    return rank == 0 && snapshot_commit(path, state, &f->sharding, why);
}

int units_save(struct units *f, const char *path, const struct snapshot *state, int rank,
               enum saving saving, double *number, char why[WHY_SIZE]) {
    if (f->shards == 1)
        return snapshot_save(path, state, why);
    return saving == SAVE_FULL ? save_full(f, path, state, rank, why)
                               : save_shards(f, path, state, rank, number, why);
}
