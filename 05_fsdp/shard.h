// What a rank does with its shard of a model (05_fsdp/sharding.h): its initial values.
// 05_fsdp/shards.h saves and loads it.
#pragma once
#include "05_fsdp/shards.h"
#include "common/models/model.h"

// Appends a unit of this size, or makes the last one larger if that is the same. Size 0: nothing.
void add_unit(struct sharding *sharding, size_t parameters, struct division division);

// Sets the parameters of a shard to their initial values: exactly those that the whole model has at
// these places. Padding becomes 0.
void shard_initialise(const struct sharding *sharding, int number, const struct model *model,
                      float *parameters, uint64_t seed, cudaStream_t stream);
