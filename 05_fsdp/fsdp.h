// Fully sharded data parallel. Every layer is divided into equal pieces, one for each rank. A rank
// stores its piece of every layer. These pieces are its shard: 1/N of the parameters, gradients and
// optimizer state. All ranks gather a layer when they compute with it.
//
// The functions only queue work on the device, unless they say that they wait. Errors of CUDA and
// NCCL end the program. The memory stays allocated until the program ends.
#pragma once
#include "05_fsdp/shard.h"
#include "common/models/model.h"
#include <nccl.h>

struct fsdp {
    const struct model *model;
    int rank, world;
    int prefetch; // 1: gather the next layer while this one computes
    size_t count; // floats in this rank's shard, which holds its pieces in the order of the layers
    float *parameters, *gradients; // the shard, on the device
    float *optimizer_state;        // count floats for each state of a parameter
    float *buffers[2];             // for whole layers: even layers use [0], odd layers use [1]
    struct piece {                 // of a layer
        size_t count; // floats: the layer's parameters / world, rounded up (the rest is padding)
        size_t first; // where this rank's piece begins in its shard
        int gathered; // 1: the all-gather of the layer is queued or done
        cudaEvent_t ready; // recorded after the all-gather
    } pieces[MOST_LAYERS];
    struct sharding sharding; // the same sizes, for snapshots
    ncclComm_t comm;          // of all ranks; the trainer owns it
    cudaStream_t stream;      // computes; the trainer owns it
    cudaStream_t comm_stream; // gathers and sums, at the same time
    cudaEvent_t event;        // orders the two streams
};

// Divides the layers of the model, which must outlive f. It needs no device.
void fsdp_build(struct fsdp *f, const struct model *model, int rank, int world, int prefetch);

// Creates the second stream and the events. overlap 0: collectives run on the stream that computes.
void fsdp_join(struct fsdp *f, ncclComm_t comm, cudaStream_t stream, int overlap);

// Allocates the shard, with the optimizer state, which becomes zero, and the buffers.
void fsdp_allocate(struct fsdp *f, int state_per_parameter);

// Sets the parameters of the shard to their initial values, which depend only on the seed.
void fsdp_initialise(struct fsdp *f, uint64_t seed);

// Gathers a layer, and returns the buffer for its parameters. Work that the host queues after this
// call can read them there. Two gathers later, another layer uses the buffer. next is the layer
// that is computed after this one; it may be -1 or the number of layers.
float *fsdp_gather(struct fsdp *f, int layer, int next);

// Sums the gradients of a layer over all ranks, which have written them into the layer's buffer.
// Each rank gets the sum of its piece.
void fsdp_scatter(struct fsdp *f, int layer);

// Work that the host queues after this call waits for the sums of all layers.
void fsdp_finish(struct fsdp *f);

// Saves a snapshot of the shards, and waits for all ranks. The caller has copied this rank's shard
// into state. number is one for barrier (04_multinode/watchdog.h). Returns 0, or -1 with the reason
// in why.
int fsdp_save(struct fsdp *f, const char *path, const struct snapshot *state, double *number,
              char why[WHY_SIZE]);
