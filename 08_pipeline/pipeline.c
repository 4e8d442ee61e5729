#include "08_pipeline/pipeline.h"
#include "04_multinode/watchdog.h"
#include "common/base/minmax.h"
#include "common/base/options.h"
#include "common/device/device.h"
#include "common/training/report.h"
#include <stdio.h>
#include <stdlib.h>

// Cuts where the sum of the FLOPs comes nearest to an equal share: a layer whose middle lies before
// the share comes before the cut. It leaves a layer for each part behind the cut.
void cut_layers(const struct model *m, int parts, int cut[]) {
    double all = 0, done = 0;
    int layer = 0;
    for (int i = 0; i < m->count; i++)
        all += m->layers[i].flops;
    cut[0] = 0;
    for (int part = 1; part < parts; part++) {
        double share = all * part / parts;
        do
            done += m->layers[layer++].flops;
        while (m->count - layer > parts - part && done + m->layers[layer].flops / 2 < share);
        cut[part] = layer;
    }
    cut[parts] = m->count;
}

// Divides the ranks into pipelines, with as many stages as possible if no number is given.
static void divide_ranks(struct pipeline *p, const struct place *place) {
    int given = p->stages, ranks = place->world / p->parts, rank = place->rank / p->parts;
    if (p->kind != INTERLEAVED)
        p->chunks = 1;
    if (!given)
        p->stages = ranks;
    while (!given && p->stages > 1 &&
           (ranks % p->stages || p->stages * p->chunks > p->model->count))
        p->stages--;
    if (ranks % p->stages)
        wrong_usage("--stages %d: %d rank%s cannot be divided into pipelines of %d ranks",
                    p->stages, place->world, PLURAL(place->world), p->stages * p->parts);
    if (p->kind == INTERLEAVED && given == 1)
        wrong_usage("--stages 1: --pipeline interleaved needs at least 2 stages");
    if (p->kind == INTERLEAVED && p->stages == 1)
        wrong_usage("--pipeline interleaved needs at least 2 stages, and %d layers for them; no "
                    "number of stages fits %d rank%s and %d layer%s",
                    2 * p->chunks, place->world, PLURAL(place->world), p->model->count,
                    PLURAL(p->model->count));
    if (p->stages * p->chunks > p->model->count)
        wrong_usage("--stages %d: the model has only %d layer%s, and %d parts need one each",
                    p->stages, p->model->count, PLURAL(p->model->count), p->stages * p->chunks);
    p->replicas = ranks / p->stages;
    p->stage = rank / p->replicas;
    p->replica = rank % p->replicas;
    p->part = place->rank % p->parts;
    p->shard = p->stage * p->parts + p->part;
}

static void divide_batch(struct pipeline *p, long batch) {
    long step = p->kind == INTERLEAVED ? p->stages : 1;
    int given = p->micro_batches;
    char factor[32] = "";
    if (!given) { // or as few as possible, if no number divides the batch
        p->micro_batches = 4 * p->stages;
        while (p->micro_batches > step && batch % (p->replicas * p->micro_batches))
            p->micro_batches -= step;
    }
    if (p->micro_batches % step)
        wrong_usage("--micro-batches %d is not divisible by %d stages, which --pipeline "
                    "interleaved needs",
                    p->micro_batches, p->stages);
    long parts = (long)p->replicas * p->micro_batches, fit = max_size(batch / parts, 1) * parts;
    if (p->micro_batches > 1)
        snprintf(factor, sizeof factor, " x %d %s", p->micro_batches,
                 given ? "micro-batches" : "stages");
    if (batch != fit)
        wrong_usage("--batch %ld is not divisible by %d replica%s%s; %ld and %ld are", batch,
                    p->replicas, PLURAL(p->replicas), factor, fit, fit + parts);
    p->rows = batch / parts;
}

int chunk_begin(const struct pipeline *p, int chunk) {
    return p->cut[chunk * p->stages + p->stage];
}

int chunk_end(const struct pipeline *p, int chunk) {
    return p->cut[chunk * p->stages + p->stage + 1];
}

static void divide_parameters(struct pipeline *p) {
    struct sharding *s = &p->sharding;
    const struct layer *layers = p->model->layers;
    size_t place = 0;
    s->shards = p->stages * p->parts;
    cut_layers(p->model, p->stages * p->chunks, p->cut);
    for (int k = 0; k < p->stages * p->chunks; k++)
        for (int i = p->cut[k]; i < p->cut[k + 1]; i++)
            shard_layer(s, &layers[i], k % p->stages * p->parts);
    p->count = shard_size(s, p->shard);
    for (int chunk = 0; chunk < p->chunks; chunk++)
        for (int i = chunk_begin(p, chunk); i < chunk_end(p, chunk); i++) {
            p->place[i] = place;
            place += layers[i].parameters;
            p->largest = max_size(layers[i].parameters, p->largest);
        }
}

size_t chunk_parameters(const struct pipeline *p, int chunk) {
    size_t sum = 0;
    for (int i = chunk_begin(p, chunk); i < chunk_end(p, chunk); i++)
        sum += p->model->layers[i].parameters;
    return sum;
}

// Returns 1 if the work must wait for the transfer: because it brings its inputs, or because the
// work overwrites what it sends. Backward overwrites the gradients of the backward before it. In
// evaluation, no activations are kept, so forward overwrites those of the forward before it.
static int must_wait(const struct pipeline *p, int training, const struct work *w,
                     const struct transfer *x) {
    if (x->to == p->stage)
        return x->backward == w->backward && x->chunk_to == w->chunk &&
               x->micro_batch == w->micro_batch;
    return x->backward ? w->backward : !training;
}

// Sets which transfers each work waits for, and counts the gradients that wait for their backward.
static void find_needs(struct round *r, struct pipeline *p, int training) {
    struct move *m = r->moves, *end = m + r->move_count;
    int waiting = 0;
    for (int i = 0; i < r->schedule.count; i++) {
        r->needs[i] = -1;
        for (; m < end && m->work == i; m++)
            for (struct transfer *x = m->first; x < m->end; x++)
                waiting += x->to == p->stage && x->backward;
        p->waiting = max_size(p->waiting, waiting);
        for (int n = 0; r->moves + n < m; n++)
            for (struct transfer *x = r->moves[n].first; x < r->moves[n].end; x++)
                if (must_wait(p, training, &r->works[i], x)) {
                    r->needs[i] = n;
                    waiting -= x->to == p->stage && x->backward;
                }
    }
}

// Finds the transfers of each tick, and the work before which they run.
static void build_moves(struct round *r, const struct pipeline *p) {
    const struct pipeline_schedule *s = &r->schedule;
    int transfers = schedule_transfers(s, p->stage, &r->transfers), i = 0;
    r->moves = calloc(transfers, sizeof *r->moves);
    for (struct transfer *x = r->transfers, *end = x + transfers; x < end;) {
        struct move *m = &r->moves[r->move_count++];
        m->first = x;
        while (x < end && x->tick == m->first->tick)
            x++;
        m->end = x;
        while (i < s->count && r->works[i].tick <= m->first->tick)
            i++;
        m->work = i;
        if (i < s->count)
            snprintf(m->text, sizeof m->text, "transfers before %s of micro-batch %d in stage %d",
                     r->works[i].backward ? "backward" : "forward", r->works[i].micro_batch,
                     p->stage);
        else
            snprintf(m->text, sizeof m->text, "last transfers of stage %d", p->stage);
    }
}

static void round_build(struct round *r, struct pipeline *p, int training) {
    struct pipeline_schedule *s = &r->schedule;
    *s = pipeline_schedule_build(p->kind, p->stages, p->chunks, p->micro_batches, training);
    r->works = s->works + (size_t)p->stage * s->count;
    r->needs = calloc(s->count, sizeof *r->needs);
    build_moves(r, p);
    find_needs(r, p, training);
}

void pipeline_build(struct pipeline *p, const struct place *place, long batch) {
    divide_ranks(p, place);
    divide_batch(p, batch);
    divide_parameters(p);
    round_build(&p->training, p, 1);
    round_build(&p->evaluation, p, 0);
    p->in_flight = most_in_flight(&p->training.schedule, p->stage);
    p->sent_a_step = -1;
}

static void create_events(struct round *r) {
    for (int i = 0; i < r->move_count; i++)
        CUDA_CHECK(cudaEventCreateWithFlags(&r->moves[i].done, cudaEventDisableTiming));
}

void pipeline_join(struct pipeline *p, ncclComm_t comm) {
    CUDA_CHECK(cudaStreamCreate(&p->stream));
    CUDA_CHECK(cudaEventCreateWithFlags(&p->computed, cudaEventDisableTiming));
    create_events(&p->training);
    create_events(&p->evaluation);
    int pipeline = p->replica * p->parts + p->part; // its number
    COLLECTIVE(p->stream, ncclCommSplit(comm, pipeline, p->stage, &p->comm, NULL));
    watch_comm(p->comm);
    COLLECTIVE(p->stream, ncclCommSplit(comm, p->shard, p->replica, &p->replicas_comm, NULL));
    watch_comm(p->replicas_comm);
}

size_t pipeline_allocate(struct pipeline *p, size_t bytes_per_float) {
    const struct layer *layers = p->model->layers;
    size_t widest = 0;
    p->activations = calloc(p->in_flight, sizeof *p->activations);
    p->arrived = calloc(p->waiting, sizeof *p->arrived);
    for (int chunk = 0; chunk < p->chunks; chunk++) {
        int begin = chunk_begin(p, chunk), end = chunk_end(p, chunk);
        widest = max_size(layers[begin].inputs, widest);
        for (int i = begin; i < end; i++)
            widest = max_size(layers[i].outputs + layers[i].workspace, widest);
        for (int n = 0; n < p->in_flight; n++) {
            DEVICE_ALLOC(p->activations[n][begin], "activations",
                         bytes_per_float * layers[begin].inputs);
            for (int i = begin; i < end; i++)
                DEVICE_ALLOC(p->activations[n][i + 1], "activations",
                             bytes_per_float * (layers[i].outputs + layers[i].workspace));
        }
    }
    for (int i = 0; i < p->waiting; i++)
        DEVICE_ALLOC(p->arrived[i], "activations", bytes_per_float * widest);
    return widest;
}

float **activations_of(const struct pipeline *p, int micro_batch) {
    return p->activations[micro_batch % p->in_flight];
}

float **next_arriving(struct pipeline *p) {
    return &p->arrived[p->arrivals++ % p->waiting];
}

float **next_arrived(struct pipeline *p) {
    return &p->arrived[p->taken++ % p->waiting];
}
