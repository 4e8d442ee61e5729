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

extern const struct option_spec tensor_options[];

// Divides the ranks, as the options say. Wrong options end the program.
void tensor_build(struct parts *parts, const struct place *place);

// Splits the communicator of all ranks; all of them must call it. Each sum of the parts then waits
// for all calls of other communicators on these two streams.
void tensor_join(struct parts *parts, ncclComm_t comm, cudaStream_t sums, cudaStream_t transfers);

// The divided layers call the next three functions: sum_parts, or with own_tokens the other two.
// sum_parts adds up count values over all parts, in place. gather_parts sets all to the count
// values of part 0, then those of part 1, and so on. scatter_sums adds up the arrays all of the
// parts, and gives part k range k of the sum, of count values.
void sum_parts(struct parts *parts, float *values, size_t count, cudaStream_t stream);
void gather_parts(struct parts *parts, const float *own, float *all, size_t count,
                  cudaStream_t stream);
void scatter_sums(struct parts *parts, const float *all, float *own, size_t count,
                  cudaStream_t stream);

// With own_tokens, each part has computed the gradients of the layers that all parts have for its
// own tokens only. Adds them up over all parts.
void sum_copies(struct parts *parts, const struct pipeline *p, float *gradients,
                cudaStream_t stream);

// Returns a checksum of the parameters that all parts have.
double checksum_of_copies(const struct pipeline *p, const float *parameters, cudaStream_t stream);

// Prints the banner's line about the parts, and the bytes that this one has sent to others in a
// training step, measured and computed.
void print_tensor(const struct parts *parts, const struct place *place);
void print_tensor_cost(const struct parts *parts, const struct pipeline *p);
