// Ranks that divide each matrix of a model: the parts of it (divided.h). Part p of a
// stage and of a replica is rank (stage * replicas + replica) * parts + p. So the parts of a matrix
// are neighbours, because they send each other more than stages and replicas do.
//
// Errors of CUDA and NCCL end the program.
#pragma once
#include "08_pipeline/pipeline.h"
#include "09_tensor/divided.h"
#include "common/base/options.h"
#include <nccl.h>

struct tensor {
    struct parts parts;
    ncclComm_t comm;          // of the ranks that divide the same layers; part p is rank p
    cudaStream_t others[2];   // of other communicators: the replicas' sums, and the transfers
    cudaEvent_t queued;       // orders this communicator's calls behind what these streams have
    double sent, sent_a_step; // bytes to other parts; sent_a_step is -1 before the first step
};

extern const struct option_spec tensor_options[];

// Divides the ranks, as the options say. Wrong options end the program.
void tensor_build(struct tensor *t, const struct place *place);

// Splits the communicator of all ranks; all of them must call it. The model's layers then find
// their sums in parts. They wait for all calls of other communicators on these two streams.
void tensor_join(struct tensor *t, ncclComm_t comm, cudaStream_t sums, cudaStream_t transfers);

// With own_tokens, each part has computed the gradients of the layers that all parts have for its
// own tokens only. Adds them up over all parts.
void sum_copies(struct tensor *t, const struct pipeline *p, float *gradients, cudaStream_t stream);

// Returns a checksum of the parameters that all parts have.
double checksum_of_copies(const struct pipeline *p, const float *parameters, cudaStream_t stream);

// Prints the banner's line about the parts, and the bytes that this one has sent to others in a
// training step, measured and computed.
void print_tensor(const struct tensor *t, const struct place *place);
void print_tensor_cost(const struct tensor *t, const struct pipeline *p);
