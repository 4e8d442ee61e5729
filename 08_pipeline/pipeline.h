// A pipeline is a group of ranks that divide the layers of one model: its stages. If there are
// several pipelines, each one trains on a slice of the batch, and the ranks with the same stage are
// replicas. In step 8, rank r is stage r / replicas, so on several nodes the neighbours in a
// pipeline may be on different nodes: they send each other less than replicas do.
//
// Errors of CUDA and NCCL end the program. The memory stays allocated until the program ends.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "08_pipeline/schedule.h"
#include "common/models/model.h"
#include "common/models/sharding.h"
#include <nccl.h>

// The transfers of this rank in one tick. They are one group of NCCL calls, which run together.
// NCCL connects two ranks at their first transfer in a direction, when both have called it, and it
// starts a group when all ranks in it are connected. So if a group also received what a later tick
// brings, its sends could wait for a rank that waits for them.
struct move {
    struct transfer *first, *end;
    int work;         // they run before this work of the round, or behind the last one
    cudaEvent_t done; // recorded behind them
    char text[64];    // for errors
};

// The works of this rank in a schedule, and the transfers between them.
struct round {
    struct pipeline_schedule schedule;
    const struct work *works; // schedule.count, those of this stage
    struct transfer *transfers;
    struct move *moves; // [move_count]
    int move_count;
    int *needs; // the last of the moves that work i waits for, -1: none. The work reads what they
                // bring, and may overwrite what they send.
};

struct pipeline {
    const struct model *model;
    enum schedule_kind kind;
    int stages, replicas, chunks, micro_batches;
    int stage, replica;        // of this rank
    int parts, part;           // ranks that divide each layer of a stage: 1, until step 9
    int shard;                 // number of this rank's shard: stage * parts + part
    int rows;                  // samples of a micro-batch
    int cut[MOST_LAYERS + 1];  // part k of the model is the layers from cut[k] to cut[k + 1]
    struct sharding sharding;  // of the parameters; a shard for each part of each stage
    size_t count;              // floats in this rank's shard
    size_t place[MOST_LAYERS]; // where the parameters of a layer of this rank lie in its shard
    struct round training, evaluation;
    size_t largest; // parameters of this rank's largest layer
    int in_flight;  // micro-batches whose activations this rank keeps, for each chunk
    // For each of them. [i]: the inputs of layer i, [i + 1]: its outputs, if it is this rank's
    float *(*activations)[MOST_LAYERS + 1];
    int waiting;              // gradients of the next stage that wait for their backward, at most
    float **arrived;          // as many buffers, used in turn
    long arrivals, taken;     // numbers of gradients that have arrived, and that backward has taken
    ncclComm_t comm;          // of the stages of this rank's pipeline; stage s is rank s
    ncclComm_t replicas_comm; // of this rank's replicas
    cudaStream_t stream;      // sends and receives, while the other streams compute and sum
    cudaEvent_t computed;     // orders this stream behind the one that computes
    double sent, sent_a_step; // bytes to other stages; sent_a_step is -1 before the first step
};

// Decides which rank has which layers, and what it does when. The caller has set model, kind,
// stages, chunks, micro_batches and parts; 0 stages: as many as ranks and layers allow, 0
// micro-batches: four for each stage, or as many as the batch allows. Wrong options end the
// program. It needs no device.
void pipeline_build(struct pipeline *p, const struct place *place, long batch);

// Cuts the layers into this many parts of consecutive layers, each with about the same FLOPs and at
// least one layer.
void cut_layers(const struct model *model, int parts, int cut[]);

// Return the first layer of this rank's chunk, and the layer behind its last one.
int chunk_begin(const struct pipeline *p, int chunk);
int chunk_end(const struct pipeline *p, int chunk);

// Returns the parameters of this rank in a chunk.
size_t chunk_parameters(const struct pipeline *p, int chunk);

// Splits the communicator of all ranks; all of them must call it. Creates the stream and events.
void pipeline_join(struct pipeline *p, ncclComm_t comm);

// Allocates the activations and the buffers for gradients. bytes_per_float: of a value of all
// samples in a micro-batch. Returns the floats per sample of the widest gradient.
size_t pipeline_allocate(struct pipeline *p, size_t bytes_per_float);

// Returns the activations of a micro-batch in flight.
float **activations_of(const struct pipeline *p, int micro_batch);

// Return the buffers for the next gradient that arrives, and of the next one that backward takes.
// They arrive in the order in which backward takes them.
float **next_arriving(struct pipeline *p);
float **next_arrived(struct pipeline *p);
