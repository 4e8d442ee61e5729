// A pipeline is a group of ranks that divide the layers of one model: its stages. If there are
// several pipelines, each one trains on a slice of the batch, and the ranks with the same stage are
// replicas. In step 8, rank r is stage r / replicas, so on several nodes the neighbours in a
// pipeline may be on different nodes: they send each other less than replicas do.
//
// Errors of CUDA and NCCL end the program. The memory stays allocated until the program ends.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "05_fsdp/shard.h"
#include "common/base/options.h"
#include "common/data/loader.h"
#include "common/models/model.h"
#include <nccl.h>

enum { MOST_STAGES = 64, MOST_MICRO_BATCHES = 512 };
enum pipeline_schedule { GPIPE, ONE_F_ONE_B };
const char *pipeline_schedule_name(int schedule); // as the option, or NULL after the last one

extern struct pipeline_opt {
    long stages, micro_batches, schedule;
} pipeline_opt; // options_parse sets it
extern const struct option_spec pipeline_options[];

struct pipeline {
    const struct model *all;   // whose layers the stages divide
    const struct model *model; // the layers of this stage, as a model of its own
    int stages, replicas, micro_batches;
    int stage, replica;          // of this rank
    int first_stage, last_stage; // 1: this rank's stage is that one
    int parts, part;             // ranks that divide each layer of a stage: 1, until step 9
    int shard;                   // number of this rank's shard: stage * parts + part
    // Appends the parameters of a divided layer. NULL: the layers are whole.
    void (*shard_layer)(struct sharding *sharding, const struct layer *layer, int first, int parts);
    int rows;                 // samples of a micro-batch
    size_t slice;             // where this pipeline's slice of a batch begins
    int warm_up;              // forwards of this stage before the first pair with a backward
    int cut[MOST_LAYERS + 1]; // stage s has the layers from cut[s] to cut[s + 1]
    struct sharding sharding; // of the parameters; a shard for each part of each stage
    size_t largest;           // parameters of this rank's largest layer
    float *micro_gradients;   // of one layer and one micro-batch
    int in_flight;            // micro-batches whose activations this rank keeps
    float *(*activations)[MOST_LAYERS + 1]; // of each of them, as in step 1
    struct samples samples;                 // that pass through the pipeline now
    const struct pass *pass;                // its stream computes
    ncclComm_t comm;             // of the stages of this rank's pipeline; stage s is rank s
    ncclComm_t replicas_comm;    // of this rank's replicas
    cudaStream_t stream;         // sends and receives, while the other streams compute and sum
    cudaEvent_t computed, moved; // order this stream and the one that computes
    double sent, sent_a_step;    // bytes to other stages; sent_a_step is -1 before the first step
};

// Decides which rank has which layers, and builds model from them. The caller has set all and
// parts. Wrong options end the program. It needs no device.
void pipeline_build(struct pipeline *p, struct model *model, const struct place *place, long batch);

// Cuts the layers into this many stages of consecutive layers, each with about the same FLOPs and
// at least one layer.
void cut_layers(const struct model *model, int stages, int cut[]);

// Splits the communicator of all ranks; all of them must call it. Creates the stream and events.
void pipeline_join(struct pipeline *p, ncclComm_t comm, const struct pass *pass);

// Allocates micro_gradients and activations. bytes_per_float: of a value of all samples in a
// micro-batch. Returns the floats per sample of the widest gradient.
size_t pipeline_allocate(struct pipeline *p, size_t bytes_per_float);

// Returns the samples of a micro-batch. The last one of an evaluation may have fewer than others,
// and those after it have none.
struct samples micro_batch_of(const struct pipeline *p, int micro_batch);

// Returns the activations of a micro-batch in flight.
float **activations_of(const struct pipeline *p, int micro_batch);

// What travels between this stage and a neighbour. If there is no such stage, or count is 0, it is
// nothing.
struct message {
    int stage; // the neighbour
    float *values;
    size_t count;
    int kept; // 1: nothing overwrites the values before a later message has arrived
};
static const struct message nothing;

// Return the messages of a micro-batch. Inputs come from the stage before this one, and outputs go
// to the next one. The gradients of outputs come from there, and those of inputs go back.
struct message inputs(const struct pipeline *p, int micro_batch);
struct message outputs(const struct pipeline *p, int micro_batch);
struct message output_gradients(const struct pipeline *p, int micro_batch, float *values);
struct message input_gradients(const struct pipeline *p, int micro_batch, float *values);

// Sends a message and receives another one, after all computing that the host has queued. The two
// are one group of NCCL calls, which run together: if two stages that send to each other sent first
// and received afterwards, each would wait for the other one. Work that the host queues after this
// call can read the received values, and may overwrite the sent ones, unless they are kept. If a
// stage receives nothing and sends values that are kept, it computes while they travel.
void exchange(struct pipeline *p, struct message sent, struct message received);
