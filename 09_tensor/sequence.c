#include "09_tensor/sequence.h"
#include "09_tensor/tensor.h"
#include "common/device/device.h"
#include "zoo/layers/kinds.h"

const float *all_tokens(const struct pass *pass, const float *own, size_t count) {
    if (!parts->own_tokens)
        return own;
    gather_parts(parts, own, pass->scratch, count, pass->stream);
    return pass->scratch;
}

float *shares_of(const struct pass *pass, float *sums) {
    return parts->own_tokens ? pass->scratch : sums;
}

void sum_shares(const struct pass *pass, float *sums, size_t count) {
    if (parts->own_tokens)
        scatter_sums(parts, pass->scratch, sums, count, pass->stream);
    else
        sum_parts(parts, sums, count, pass->stream);
}

// Each part looks up all tokens of the batch in scratch, because this costs little, and keeps its
// own.
static size_t floats_of_batch(const struct layer *l, int b) {
    return (size_t)b * l->inputs * l->out.channels;
}

static void embed_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, int b) {
    size_t own = (size_t)b * l->outputs;
    embedding.forward(l, pass, parameters, x, pass->scratch, b);
    CUDA_CHECK(cudaMemcpyAsync(y, (float *)pass->scratch + parts->number * own, own * sizeof *y,
                               cudaMemcpyDeviceToDevice, pass->stream));
}

// The tokens of other parts add nothing to the gradients.
static void embed_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                           const float *x, float *y, float *dy, float *dx, float *gradients,
                           int b) {
    size_t own = (size_t)b * l->outputs;
    float *all = pass->scratch;
    CUDA_CHECK(cudaMemsetAsync(all, 0, floats_of_batch(l, b) * sizeof *all, pass->stream));
    CUDA_CHECK(cudaMemcpyAsync(all + parts->number * own, dy, own * sizeof *all,
                               cudaMemcpyDeviceToDevice, pass->stream));
    embedding.backward(l, pass, parameters, x, y, all, dx, gradients, b);
}

static size_t embed_scratch(const struct layer *l, cudaDataType type, int b) {
    (void)type;
    return floats_of_batch(l, b) * sizeof(float);
}

const struct layer_kind embedding_of_own = {"embedding", NULL, embed_forward, embed_backward,
                                            embed_scratch};

// This part has rows number * b to number * b + b of the batch, if a row is what a
// sample leaves of its tokens to each part.
static struct pass own_rows(const struct pass *pass, int b) {
    struct pass own = *pass;
    own.first_sample = pass->first_sample * parts->count + (uint64_t)parts->number * b;
    return own;
}

static void drop_forward(const struct layer *l, const struct pass *pass, const void *parameters,
                         const float *x, float *y, int b) {
    struct pass own = own_rows(pass, b);
    dropout.forward(l, &own, parameters, x, y, b);
}

static void drop_backward(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, float *dy, float *dx, float *gradients, int b) {
    struct pass own = own_rows(pass, b);
    dropout.backward(l, &own, parameters, x, y, dy, dx, gradients, b);
}

const struct layer_kind dropout_of_own = {"dropout", NULL, drop_forward, drop_backward};
