#include "05_fsdp/shard.h"
#include "common/base/minmax.h"
#include "common/device/device.h"
#include <string.h>

void add_unit(struct sharding *s, size_t parameters, struct division division) {
    int consecutive = division.copies || division.shards == 1, i = s->units - 1;
    if (!parameters)
        return;
    if (i >= 0 && consecutive && !memcmp(&s->division[i], &division, sizeof division)) {
        s->unit[i] += parameters;
        return;
    }
    if (s->units == MOST_UNITS)
        fail("the model has too many matrices: raise MOST_UNITS in 05_fsdp/sharding.h");
    s->division[s->units] = division;
    s->unit[s->units++] = parameters;
}

void shard_initialise(const struct sharding *s, int number, const struct model *m,
                      float *parameters, uint64_t seed, cudaStream_t stream) {
    CUDA_CHECK(cudaMemsetAsync(parameters, 0, shard_size(s, number) * sizeof(float), stream));
    for (const struct layer *l = m->layers; l < m->layers + m->count; l++)
        for (size_t done = 0, count; done < l->parameters; done += count) {
            struct location at = shard_find(s, number, l->first + done);
            count = min_size(at.count, l->parameters - done);
            if (at.held)
                l->kind->initialise(l, parameters + at.index, done, count, seed, stream);
        }
}
