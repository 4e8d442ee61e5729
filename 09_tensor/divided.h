// Tensor parallelism (Shoeybi et al., "Megatron-LM", 2019): the ranks divide a model into parts,
// and each rank computes one of them. Two dense layers are divided together, as a pair: the first
// one by its outputs, the second one by its inputs. The layers between them, such as attention, are
// divided, too. All parts have copies of the other layers.
#pragma once
#include "05_fsdp/shard.h"
#include "common/models/model.h"

struct parts {
    int count, number; // number: of this one
    // 1: outside of the pairs, each part holds only its share of all tokens of the batch (sequence
    // parallel: Korthikanti et al., "Reducing activation recomputation in large transformer
    // models", 2022)
    int own_tokens;
    // The layers call these functions, with group. sum adds up count values over all parts, in
    // place. With own_tokens, the layers call the other two. all_gather sets all to the count
    // values of part 0, then those of part 1, and so on. reduce_scatter adds up the arrays all of
    // the parts, and gives part k range k of the sum, of count values.
    void (*sum)(void *group, float *values, size_t count, cudaStream_t stream);
    void (*all_gather)(void *group, const float *own, float *all, size_t count,
                       cudaStream_t stream);
    void (*reduce_scatter)(void *group, const float *all, float *own, size_t count,
                           cudaStream_t stream);
    void *group;
    const struct model *whole; // whose pairs are divided
    int in_pair;               // 1 while the layers of a pair are appended, behind the first one
};

// Builds the part of a whole model, which has been built from these options. The parts must outlive
// the model. Returns 0, or -1 with the reason in why, such as a width that is no multiple of the
// number of parts.
int build_part(struct model *model, const struct model *whole, struct parts *parts,
               const struct training_options *options, const struct dataset *set,
               char why[WHY_SIZE]);

// Returns how the parts divide the matrix of a layer of a part.
enum divided { NOT_DIVIDED, BY_OUTPUTS, BY_INPUTS } how_divided(const struct layer *layer);

// The product of a layer of a pair: its rows for each sample, and the values of a row.
struct product {
    int rows, inputs, outputs;
};
struct product product_of(const struct layer *layer);

// Appends the parameters of a layer of a part. first: the shard of part 0; those of the other parts
// follow it.
void shard_layer(struct sharding *sharding, const struct layer *layer, int first, int parts);
