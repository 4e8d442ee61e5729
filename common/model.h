// A model is a list of layers. A training program loops over the list and never asks what kind a
// layer is, so a new kind is a new struct layer_kind in model.c and nothing else.
//
// Shapes: a batch of b samples is a row-major matrix [b, inputs] of floats on the device; a layer
// turns it into [b, outputs]. All parameters lie in one flat array, a layer's own from its first
// on.
#pragma once
#include "error.h"
#include <stddef.h>
#include <stdint.h>

// What a layer needs to know about the pass it takes part in.
struct pass {
    cublasHandle_t blas; // queues on stream
    cudaStream_t stream;
    int training;          // 0 in evaluation
    uint64_t seed;         // of this step's random numbers; the same in forward and backward
    uint64_t first_sample; // place of row 0 in the whole batch, so that random numbers go by sample
    cudaDataType
        type;      // of parameters, and of what matrix products read: CUDA_R_32F (0) or CUDA_R_16BF
    void *scratch; // with CUDA_R_16BF: model_scratch bytes of device memory
};

struct layer {
    const struct layer_kind *kind;
    int inputs, outputs; // floats per sample
    int workspace;       // floats per sample that follow the outputs, the layer's own (often 0)
    size_t first, parameters; // its slice of the flat array, in elements
};

// parameters, gradients: the layer's own slices. y: [b, outputs], then b * workspace floats. Only
// parameters are of the pass's type: the rest stays float, and is rounded on its way into a matrix
// product. b may be 0.
struct layer_kind {
    const char *name;
    // Fills the parameters first_value, ..., first_value + count - 1 of the layer: any part of it,
    // so that whoever holds a part can make that part.
    void (*initialise)(const struct layer *layer, float *parameters, size_t first_value,
                       size_t count, uint64_t seed, cudaStream_t stream);
    void (*forward)(const struct layer *layer, const struct pass *pass, const void *parameters,
                    const float *x, float *y, int b);
    // Given dy = dloss/dy, which it may overwrite, writes gradients (not adds) and, where dx is not
    // NULL, dx = dloss/dx. x and y are as forward left them. gradients may be the very memory of
    // parameters (with CUDA_R_16BF: begin twice as far into one buffer), so all reading of these
    // comes first.
    void (*backward)(const struct layer *layer, const struct pass *pass, const void *parameters,
                     const float *x, float *y, float *dy, float *dx, float *gradients, int b);
};

enum { MOST_LAYERS = 64 };
struct model {
    char shape[128]; // such as "mlp 784-512-512-10"; names the model in snapshots
    struct layer layers[MOST_LAYERS];
    int count;
    size_t parameters; // of all layers, in floats
};

// name: "mlp". hidden: widths of the hidden layers, such as "512,512". Returns 0, or -1 with the
// reason in why.
int model_build(struct model *model, const char *name, const char *hidden, int inputs, int classes,
                char why[WHY_SIZE]);

// Bytes of scratch memory that passes of this type over at most b samples need.
size_t model_scratch(const struct model *model, cudaDataType type, int b);

// Puts a layer of the kind at the end of the list; its inputs are the outputs of the one before.
void model_append(struct model *model, const struct layer_kind *kind, int inputs, int outputs,
                  int workspace, size_t parameters);

// y = x W^T + bias, with W [outputs, inputs] and then bias [outputs] in the parameters; dense_relu
// continues with y = max(y, 0). Initialised like torch.nn.Linear: uniform in +-1/sqrt(inputs).
extern const struct layer_kind dense, dense_relu;
