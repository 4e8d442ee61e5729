#include "09_tensor/tensor.h"
#include "02_multigpu_fork/nccl_check.h"
#include "04_multinode/watchdog.h"
#include "08_pipeline/stage_costs.h"
#include "common/base/say.h"
#include "common/device/device.h"
#include "zoo/layers/inner.h"

static struct { long parts, sequence; } tensor_opt;

const struct option_spec tensor_options[] = {
    {"tensor", OPTION_INT, &tensor_opt.parts, "0", 0, MOST_SHARDS,
     "parts of each matrix, 0: as many as a node has ranks"},
    {"sequence", OPTION_INT, &tensor_opt.sequence, "0", 0, 1,
     "1: each part has its own tokens in the layers that are not divided"},
    {0},
};

void tensor_build(struct parts *parts, const struct place *place) {
    if (!tensor_opt.parts)
        tensor_opt.parts = place->local_world ? place->local_world : place->world;
    parts->count = tensor_opt.parts; // ranks of other nodes compare it with theirs
    if (place->world % parts->count)
        wrong_usage("--tensor %d: %d rank%s cannot be divided into groups of %d", parts->count,
                    place->world, PLURAL(place->world), parts->count);
    parts->number = place->rank % parts->count;
    parts->own_tokens = tensor_opt.sequence && parts->count > 1;
    parts->sent_a_step = -1;
}

// Two communicators whose calls run at the same time can wait for each other forever, if one rank
// starts with the one and another rank with the other. So this stream waits for the other ones.
static void wait_for_others(struct parts *parts, cudaStream_t stream) {
    for (int i = 0; i < 2; i++) {
        CUDA_CHECK(cudaEventRecord(parts->queued, parts->others[i]));
        CUDA_CHECK(cudaStreamWaitEvent(stream, parts->queued, 0));
    }
}

void sum_parts(struct parts *parts, float *values, size_t count, cudaStream_t stream) {
    wait_for_others(parts, stream);
    COLLECTIVE(stream,
               ncclAllReduce(values, values, count, ncclFloat, ncclSum, parts->comm, stream));
    parts->sent += 2. * (parts->count - 1) / parts->count * count * sizeof(float);
}

void gather_parts(struct parts *parts, const float *own, float *all, size_t count,
                  cudaStream_t stream) {
    wait_for_others(parts, stream);
    COLLECTIVE(stream, ncclAllGather(own, all, count, ncclFloat, parts->comm, stream));
    parts->sent += (parts->count - 1.) * count * sizeof(float);
}

void scatter_sums(struct parts *parts, const float *all, float *own, size_t count,
                  cudaStream_t stream) {
    wait_for_others(parts, stream);
    COLLECTIVE(stream, ncclReduceScatter(all, own, count, ncclFloat, ncclSum, parts->comm, stream));
    parts->sent += (parts->count - 1.) * count * sizeof(float);
}

void tensor_join(struct parts *parts, ncclComm_t comm, cudaStream_t sums, cudaStream_t transfers) {
    int rank;
    NCCL_CHECK(ncclCommUserRank(comm, &rank));
    COLLECTIVE(sums, ncclCommSplit(comm, rank / parts->count, rank, &parts->comm, NULL));
    watch_comm(parts->comm);
    parts->others[0] = sums;
    parts->others[1] = transfers;
    CUDA_CHECK(cudaEventCreateWithFlags(&parts->queued, cudaEventDisableTiming));
}

// Finds the next range of this rank's shard that all parts have, from unit *unit on, which this
// moves after it. Returns how many values it has, 0: there is none.
static size_t next_copy(const struct pipeline *p, int *unit, size_t *index) {
    const struct sharding *s = &p->sharding;
    size_t first = 0;
    for (int i = 0; i < s->units; first += s->unit[i++]) {
        if (i < *unit || !s->division[i].copies)
            continue;
        struct location at = shard_find(s, p->shard, first);
        *unit = i + 1;
        *index = at.index;
        if (at.held)
            return s->unit[i];
    }
    return 0;
}

void sum_copies(struct parts *parts, const struct pipeline *p, float *gradients,
                cudaStream_t stream) {
    size_t index, count;
    wait_for_others(parts, stream);
    begin_collective("sums of the gradients of copies", __FILE__, __LINE__);
    NCCL_CHECK(ncclGroupStart());
    for (int unit = 0; (count = next_copy(p, &unit, &index));) {
        NCCL_CHECK(ncclAllReduce(gradients + index, gradients + index, count, ncclFloat, ncclSum,
                                 parts->comm, stream));
        parts->sent += 2. * (parts->count - 1) / parts->count * count * sizeof(float);
    }
    end_collective(ncclGroupEnd(), stream);
}

double checksum_of_copies(const struct pipeline *p, const float *parameters, cudaStream_t stream) {
    double checksum = 0;
    size_t index, count;
    for (int unit = 0; (count = next_copy(p, &unit, &index));)
        checksum += device_checksum(parameters + index, count, stream);
    return checksum;
}

void print_tensor(const struct parts *parts, const struct place *place) {
    int across = place->local_world && place->local_world % parts->count;
    if (parts->count == 1) {
        say("tensor    1 part: each matrix is whole\n");
        return;
    }
    say("tensor    %d parts of %d pair%s of matrices; undivided matrices: %d%s%s\n", parts->count,
        parts->pairs, PLURAL(parts->pairs), parts->whole_products,
        parts->own_tokens ? ", other layers divided by tokens" : "",
        across ? ", on several nodes, which is slow" : "");
}

// Returns the values that a part sends for each sample in a training step. In forward, a pair of
// layers sums its outputs, and in backward the gradients of its inputs. With own_tokens, a
// reduce-scatter and an all-gather take the place of each sum, and the inputs are gathered again in
// backward.
static double values_sent(const struct layer *l, const struct parts *p) {
    int parts = p->count, own_tokens = p->own_tokens;
    double values = 0, sum = 2. / parts;
    const struct zoo_layer *z = zoo_layer(l);
    for (const struct layer *i = z->inner; i < z->inner_end; i = layer_after(i))
        values += values_sent(i, p);
    if (how_divided(l) == BY_OUTPUTS && l->first > 0) // nothing reads dx of the model's first layer
        values += (parts - 1) * l->inputs * (own_tokens ? 3 : sum);
    if (how_divided(l) == BY_INPUTS)
        values += (parts - 1) * l->outputs * (own_tokens ? 2 : sum);
    return values;
}

void print_tensor_cost(const struct parts *parts, const struct pipeline *p) {
    double values = 0;
    size_t index, count;
    int n = parts->count;
    for (int i = p->cut[p->stage]; i < p->cut[p->stage + 1]; i++)
        values += values_sent(&p->all->layers[i], parts) * p->rows * p->micro_batches;
    for (int unit = 0; parts->own_tokens && (count = next_copy(p, &unit, &index));)
        values += 2. * (n - 1) / n * count;
    if (parts->sent_a_step >= 0) // else no training step has run
        print_cost("parts / step", parts->sent_a_step, 4 * values, "sums of each pair of matrices");
}
