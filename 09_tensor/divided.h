// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): the ranks divide a model into parts,
// and each rank computes one of them. Two dense layers are divided together, as a pair: the first
// one by its outputs, the second one by its inputs. The layers between them, such as attention, are
// divided, too. All parts have copies of the other layers.
#pragma once
#include "05_fsdp/shard.h"
#include "common/models/model.h"
#include <nccl.h>

struct parts {
    int count, number;         // number: of this one
    int own_tokens;            // 1: each part has tokens of its own (sequence.h)
    const struct model *whole; // whose pairs are divided
    int pairs, whole_products; // numbers of pairs, and of matrices that are not divided
    int in_pair;               // 1 while the layers of a pair are appended, after the first one
    ncclComm_t comm;           // of the ranks that divide the same layers; part p is rank p
    cudaStream_t others[2];    // of other communicators: the replicas' sums, and the transfers
    cudaEvent_t queued;        // orders this communicator's calls after what these streams have
    double sent, sent_a_step;  // bytes to other parts; sent_a_step is -1 before the first step
};

// Builds the part of a whole model, which has been built from these options. The parts must outlive
// the model, and a process has one model that is divided. Returns 0, or -1 with the reason in why,
// such as a width that is no multiple of the number of parts.
int build_part(struct model *model, const struct model *whole, struct parts *parts,
               const struct training_options *options, const struct dataset *set,
               char why[WHY_SIZE]);

// Returns how the parts divide the matrix of a layer of a part.
enum divided { NOT_DIVIDED, BY_OUTPUTS, BY_INPUTS } how_divided(const struct layer *layer);

// Appends the parameters of a layer of a part. first: the shard of part 0; those of the other parts
// follow it.
void shard_layer(struct sharding *sharding, const struct layer *layer, int first, int parts);
