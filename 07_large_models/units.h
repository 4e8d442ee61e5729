// Step 5's sharding for large models. A unit is a layer, or several consecutive layers that the
// ranks gather and scatter together. A group is the ranks that shard one copy of the model. If
// there are several groups, the ranks with the same shard, one in each group, are replicas.
//
// The functions only queue work on the device. Errors of CUDA and NCCL end the program. The memory
// stays allocated until the program ends.
#pragma once
#include "03_multigpu_launcher/environment.h"
#include "05_fsdp/shard.h"
#include "common/models/model.h"
#include <nccl.h>

enum strategy { FULL, GRAD, HYBRID, NONE }; // which ranks form a group
enum precision { FP32, BF16 };              // of gathered parameters and of products' inputs
const char *strategy_name(int strategy);    // as the option, or NULL after the last one
const char *precision_name(int precision);

struct units {
    const struct model *model;
    enum strategy strategy;
    enum precision precision;
    int micro_batches, micro_batch; // their number, and the current one, from 0
    int prefetch;                   // 1: gather the next unit while this one computes
    int shards, shard, replicas;    // number of shards, this rank's, and number of groups
    int keep;                       // 1: a unit stays gathered from forward to backward
    int buffered;                   // 1: units are gathered and summed in buffers, not in place
    cudaDataType type;              // of gathered parameters
    size_t size;                    // bytes of a gathered parameter
    size_t count; // floats in this rank's shard, which holds its pieces in the order of the units
    float *parameters, *gradients; // the shard, on the device
    float *optimizer_state;        // count floats for each state of a parameter
    int unit_count;
    struct unit {
        int first_layer, end_layer;
        size_t begin, parameters; // its range in the model's flat array, in elements
        size_t count; // floats of a piece: parameters / shards, rounded up (the rest is padding)
        size_t first; // where this rank's piece begins in its shard
        void *whole;  // buffer for all parameters, of the type above
        float *gradients;  // buffer for all gradients; may be the same memory as whole
        int gathered;      // 1: the all-gather of the unit is queued or done
        cudaEvent_t ready; // recorded after the all-gather
    } units[MOST_LAYERS];
    struct sharding sharding; // the same sizes, for snapshots
    ncclComm_t group_comm;    // of the ranks of this rank's group
    ncclComm_t replica_comm;  // of this rank's replicas
    cudaStream_t stream;      // computes; the trainer owns it
    cudaStream_t comm_stream; // gathers and sums, at the same time
    cudaEvent_t event;        // orders the two streams
    double sent, sent_a_step; // bytes of parameters and gradients that this rank sends in a ring;
                              // sent_a_step is -1 before the first step
};

// Decides which rank stores which part of the model, which must outlive f, and lays its activations
// out for the precision. The caller has set strategy, precision, micro_batches and prefetch. Wrong
// options end the program. It needs no device.
void units_build(struct units *f, struct model *model, const struct place *place,
                 size_t unit_bytes);

// Splits the communicator of all ranks; all of them must call it. Creates the second stream and the
// events. overlap 0: collectives run on the stream that computes.
void units_join(struct units *f, ncclComm_t comm, int rank, cudaStream_t stream, int overlap);

// Allocates the shard, with the optimizer state, which becomes zero, and the buffers.
void units_allocate(struct units *f, int state_per_parameter);

// Allocates the outputs of all layers: layer i writes to outputs[i], which is NULL before, and the
// next layer reads from activations[i + 1]. The two are the same memory, unless recompute is 1: the
// units then share memory for outputs and workspaces, so the last outputs of a unit may have to be
// copied. Returns the largest number of outputs of a layer, in floats per sample.
size_t allocate_activations(const struct units *f, size_t bytes_per_float, int recompute,
                            float *outputs[], float *activations[]);

// Sets the parameters of the shard to their initial values, which depend only on the seed.
void units_initialise(struct units *f, uint64_t seed);

// Gathers unit n. Work that the host queues after this call can read its parameters in whole. Two
// gathers later, another unit uses the buffer; with keep, a unit has it until it is scattered. next
// is the unit that is computed after this one; it may be -1 or the number of units.
void fetch_unit(struct units *f, int n, int next);

// Returns the parameters of a layer of a gathered unit, of type f->type.
const void *gathered_layer(const struct units *f, const struct unit *u, const struct layer *l);

// Sums the gradients of a unit over all ranks. Each rank gets the sum of its piece, and adds it to
// those of the earlier micro-batches. After the last one, the replicas sum theirs.
void scatter_unit(struct units *f, struct unit *u);

// Work that the host queues after this call waits for the sums of all units.
void units_finish(struct units *f);
