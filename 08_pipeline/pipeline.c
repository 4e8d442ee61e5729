#include "08_pipeline/pipeline.h"
#include "02_multigpu_fork/nccl_check.h"
#include "04_multinode/watchdog.h"
#include "common/base/minmax.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include <stdio.h>
#include <stdlib.h>

struct pipeline_opt pipeline_opt;

const char *pipeline_schedule_name(int i) {
    static const char *const names[] = {"gpipe", "1f1b", NULL};
    return names[i];
}

const struct option_spec pipeline_options[] = {
    {"stages", OPTION_INT, &pipeline_opt.stages, "0", 0, MOST_STAGES,
     "stages of a pipeline, 0: as many as ranks and layers allow"},
    {"micro-batches", OPTION_INT, &pipeline_opt.micro_batches, "0", 0, MOST_MICRO_BATCHES,
     "parts of a batch, 0: about four for each stage"},
    {"pipeline", OPTION_CHOICE, &pipeline_opt.schedule, "1f1b", 0, 0, "the order of the work",
     pipeline_schedule_name},
    {0},
};

// Cuts where the sum of the FLOPs comes nearest to an equal share: a layer whose middle lies before
// the share comes before the cut. It leaves a layer for each stage after the cut.
void cut_layers(const struct model *m, int stages, int cut[]) {
    double all = 0, done = 0;
    int layer = 0;
    for (int i = 0; i < m->count; i++)
        all += m->layers[i].flops;
    cut[0] = 0;
    for (int stage = 1; stage < stages; stage++) {
        double share = all * stage / stages;
        do
            done += m->layers[layer++].flops;
        while (m->count - layer > stages - stage && done + m->layers[layer].flops / 2 < share);
        cut[stage] = layer;
    }
    cut[stages] = m->count;
}

// Divides the ranks into pipelines, with as many stages as possible if no number is given.
static void divide_ranks(struct pipeline *p, const struct place *place) {
    int given = pipeline_opt.stages, ranks = place->world / p->parts;
    int rank = place->rank / p->parts;
    p->stages = given ? given : ranks;
    while (!given && (ranks % p->stages || p->stages > p->all->count))
        p->stages--;
    if (ranks % p->stages)
        wrong_usage(
            "--stages %d: %d rank%s cannot be divided into pipelines of %d stages x %d rank%s",
            p->stages, place->world, PLURAL(place->world), p->stages, p->parts, PLURAL(p->parts));
    if (p->stages > p->all->count)
        wrong_usage("--stages %d: the model has only %d layer%s, and each stage needs one",
                    p->stages, p->all->count, PLURAL(p->all->count));
    p->replicas = ranks / p->stages;
    p->stage = rank / p->replicas;
    p->replica = rank % p->replicas;
    p->first_stage = p->stage == 0;
    p->last_stage = p->stage == p->stages - 1;
    p->part = place->rank % p->parts;
    p->shard = p->stage * p->parts + p->part;
}

static void divide_batch(struct pipeline *p, long batch) {
    int given = pipeline_opt.micro_batches;
    char factor[32] = "";
    p->micro_batches = given ? given : 4 * p->stages;
    while (!given && p->micro_batches > 1 && batch % (p->replicas * p->micro_batches))
        p->micro_batches--; // to as few as possible, if no number divides the batch
    long all = (long)p->replicas * p->micro_batches, fit = max_size(batch / all, 1) * all;
    if (given > 1)
        snprintf(factor, sizeof factor, " x %d micro-batches", given);
    if (batch != fit)
        wrong_usage("--batch %ld is not divisible by %d replica%s%s; %ld and %ld are", batch,
                    p->replicas, PLURAL(p->replicas), factor, fit, fit + all);
    p->rows = batch / all;
    p->slice = (size_t)p->replica * p->micro_batches * p->rows;
}

// A stage gets its first gradient when the first micro-batch has passed all stages after it, and
// runs as many more forwards until then. With gpipe, it runs all of them first.
static void count_forwards(struct pipeline *p) {
    int later = p->stages - 1 - p->stage;
    p->warm_up =
        pipeline_opt.schedule == GPIPE ? p->micro_batches : (int)min_size(later, p->micro_batches);
    p->in_flight = min_size(p->warm_up + 1, p->micro_batches);
}

// Builds the model of this stage. A layer's offset in the flat array is that in this rank's shard.
static void divide_layers(struct pipeline *p, struct model *m) {
    const struct layer *layers = p->all->layers;
    cut_layers(p->all, p->stages, p->cut);
    int begin = p->cut[p->stage];
    p->sharding.shards = p->stages * p->parts;
    for (int stage = 0; stage < p->stages; stage++)
        for (int i = p->cut[stage]; i < p->cut[stage + 1]; i++)
            if (p->shard_layer)
                p->shard_layer(&p->sharding, &layers[i], stage * p->parts, p->parts);
            else
                add_unit(&p->sharding, layers[i].parameters,
                         (struct division){.first = stage, .shards = 1});
    *m = *p->all;
    m->count = p->cut[p->stage + 1] - begin;
    m->parameters = shard_size(&p->sharding, p->shard);
    for (int i = 0; i < m->count; i++) {
        m->layers[i] = layers[begin + i];
        m->layers[i].first -= layers[begin].first;
        p->largest = max_size(m->layers[i].parameters, p->largest);
    }
}

void pipeline_build(struct pipeline *p, struct model *model, const struct place *place,
                    long batch) {
    divide_ranks(p, place);
    divide_batch(p, batch);
    count_forwards(p);
    divide_layers(p, model);
    p->model = model;
    p->sent_a_step = -1;
}

void pipeline_join(struct pipeline *p, ncclComm_t comm, const struct pass *pass) {
    p->pass = pass;
    CUDA_CHECK(cudaStreamCreate(&p->stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&p->computed, cudaEventDisableTiming));
    CUDA_CHECK(cudaEventCreateWithFlags(&p->moved, cudaEventDisableTiming));
    int pipeline = p->replica * p->parts + p->part; // its number
    COLLECTIVE(p->stream, ncclCommSplit(comm, pipeline, p->stage, &p->comm, NULL));
    watch_comm(p->comm);
    COLLECTIVE(p->stream, ncclCommSplit(comm, p->shard, p->replica, &p->replicas_comm, NULL));
    watch_comm(p->replicas_comm);
}

size_t pipeline_allocate(struct pipeline *p, size_t bytes_per_float) {
    const struct model *m = p->model;
    size_t inputs = m->layers[0].inputs, widest = inputs;
    DEVICE_ALLOC(p->micro_gradients, "gradients", p->largest * sizeof(float));
    p->activations = calloc(p->in_flight, sizeof *p->activations);
    for (int n = 0; n < p->in_flight; n++) {
        DEVICE_ALLOC(p->activations[n][0], "activations", bytes_per_float * inputs);
        for (int i = 0; i < m->count; i++) {
            const struct layer *l = &m->layers[i];
            widest = max_size(l->outputs, widest);
            DEVICE_ALLOC(p->activations[n][i + 1], "activations",
                         bytes_per_float * ((size_t)l->outputs + l->workspace));
        }
    }
    return widest;
}

struct samples micro_batch_of(const struct pipeline *p, int micro_batch) {
    return some_of(p->samples, (size_t)micro_batch * p->rows, p->rows);
}

float **activations_of(const struct pipeline *p, int micro_batch) {
    return p->activations[micro_batch % p->in_flight];
}

struct message inputs(const struct pipeline *p, int micro_batch) {
    struct samples s = micro_batch_of(p, micro_batch);
    return (struct message){.stage = p->stage - 1,
                            .values = activations_of(p, micro_batch)[0],
                            .count = s.count * p->model->layers[0].inputs};
}

struct message outputs(const struct pipeline *p, int micro_batch) {
    struct samples s = micro_batch_of(p, micro_batch);
    int last = p->model->count - 1;
    return (struct message){.stage = p->stage + 1,
                            .values = activations_of(p, micro_batch)[last + 1],
                            .count = s.count * p->model->layers[last].outputs,
                            .kept = p->pass->training}; // until backward
}

struct message input_gradients(const struct pipeline *p, int micro_batch, float *values) {
    struct message m = inputs(p, micro_batch);
    m.values = values;
    return m;
}

struct message output_gradients(const struct pipeline *p, int micro_batch, float *values) {
    struct message m = outputs(p, micro_batch);
    m.values = values;
    m.kept = 0;
    return m;
}

static int is_something(const struct pipeline *p, struct message m) {
    return m.count > 0 && m.stage >= 0 && m.stage < p->stages;
}

void exchange(struct pipeline *p, struct message sent, struct message received) {
    int sends = is_something(p, sent), receives = is_something(p, received);
    if (!sends && !receives)
        return;
    CUDA_CHECK(cudaEventRecord(p->computed, p->pass->stream));
    CUDA_CHECK(cudaStreamWaitEvent(p->stream, p->computed, 0));
    begin_collective("transfers between stages", __FILE__, __LINE__);
    NCCL_CHECK(ncclGroupStart());
    if (sends)
        NCCL_CHECK(ncclSend(sent.values, sent.count, ncclFloat, sent.stage, p->comm, p->stream));
    if (receives)
        NCCL_CHECK(ncclRecv(received.values, received.count, ncclFloat, received.stage, p->comm,
                            p->stream));
    end_collective(ncclGroupEnd(), p->stream);
    CUDA_CHECK(cudaEventRecord(p->moved, p->stream));
    if (receives || !sent.kept)
        CUDA_CHECK(cudaStreamWaitEvent(p->pass->stream, p->moved, 0));
    p->sent += sends ? sent.count * sizeof(float) : 0;
}
