// A model is a list of layers. A training program loops over the list and never asks for the kind
// of a layer, so a new kind of layer or a new model changes no program.
//
// Shapes: a batch of b samples is a row-major matrix [b, inputs] of floats on the device. A layer
// turns it into [b, outputs]. All parameters lie in one flat array; those of a layer start at
// first.
#pragma once
#include "common/base/error.h"
#include "common/kernels/kernels.h"
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

// A forward or backward pass, as a layer sees it.
struct pass {
    cublasHandle_t blas; // queues on stream
    cudaStream_t stream;
    int training;          // 0 in evaluation
    uint64_t seed;         // for random numbers; the same in forward and backward of a step
    uint64_t first_sample; // index of row 0 in the whole batch; random numbers depend on it
    cudaDataType type;     // of parameters and of products' inputs: CUDA_R_32F (0) or CUDA_R_16BF
    void *scratch;         // model_scratch bytes of device memory, for any layer's use
};

struct layer {
    const struct layer_kind *kind;
    struct shape in, out;     // of a sample
    int inputs, outputs;      // floats per sample
    int workspace;            // floats per sample after the outputs, for the layer's use (often 0)
    size_t first, parameters; // its slice of the flat array, in elements; may be empty
    int dx_unused;            // 1: nothing reads dx, so backward need not compute it
    double flops;             // of the matrix products of forward, for one sample
    char names[2][32];        // of its forward and backward passes, for profiles and traces
    uint64_t more[11];        // for kinds outside of common/, which know what it holds
};

// The functions of a kind of layer. parameters and gradients: the slices of this layer. y: [b,
// outputs], then b * workspace floats. Only parameters have the type of the pass. All other arrays
// are floats, and are rounded to that type for a matrix product. b may be 0.
struct layer_kind {
    const char *name;
    // Fills the parameters first_value, ..., first_value + count - 1 of the layer. A program that
    // stores only a part of a layer fills only that part.
    void (*initialise)(const struct layer *layer, float *parameters, size_t first_value,
                       size_t count, uint64_t seed, cudaStream_t stream);
    void (*forward)(const struct layer *layer, const struct pass *pass, const void *parameters,
                    const float *x, float *y, int b);
    // Computes the gradients and, if dx is not NULL, dx = dloss/dx, from dy = dloss/dy. It
    // overwrites gradients, and may overwrite dy. x and y are those of forward. gradients may be
    // the same memory as parameters (with CUDA_R_16BF, at twice the offset in one buffer), so it
    // must read all parameters before it writes gradients.
    void (*backward)(const struct layer *layer, const struct pass *pass, const void *parameters,
                     const float *x, float *y, float *dy, float *dx, float *gradients, int b);
    // Returns the bytes of scratch that forward and backward need. NULL: none.
    size_t (*scratch)(const struct layer *layer, cudaDataType type, int b);
};

enum { MOST_LAYERS = 64 };
struct model {
    char shape[128];   // such as "mlp 784-512-512-10"; a snapshot with another shape is refused
    char settings[64]; // for the banner: those that change no parameter, such as ", dropout 0.2"
    struct layer layers[MOST_LAYERS];
    int count;
    size_t parameters; // of all layers, in floats
    struct shape out;  // of the last layer; without layers, of the samples
    void *more;        // for the same kinds
};

struct training_options;
// Builds the model that the options name, for the samples of the set. Returns 0, or -1 with the
// reason in why.
int model_build(struct model *model, const struct training_options *options,
                const struct dataset *set, char why[WHY_SIZE]);

// Returns the name of model number i in the catalogue, or NULL after the last one.
const char *model_name(int i);

// Returns the bytes of scratch memory for passes of this type over at most b samples.
size_t model_scratch(const struct model *model, cudaDataType type, int b);

// Appends a layer, whose inputs are the outputs of the layer before it.
struct layer *model_append(struct model *model, const struct layer_kind *kind, struct shape out,
                           int workspace, size_t parameters);

// The same for a layer l that is not in the list.
void model_add(struct model *model, struct layer *l, const struct layer_kind *kind,
               struct shape out, int workspace, size_t parameters);

// Sets the stream of the pass, and creates its handle of cuBLAS. tf32 1: matrix products round
// their inputs to TF32.
void open_pass(struct pass *pass, cudaStream_t stream, int tf32);

// Begins a training step, with this seed for its random numbers: sets pass->training and
// pass->seed. A watcher counts all work that is queued from here on as this step's.
void begin_step(struct pass *pass, uint64_t seed);

// Run a layer of the model: kind->forward and kind->backward, as spans (common/device/spans.h).
void layer_forward(const struct layer *layer, const struct pass *pass, const void *parameters,
                   const float *x, float *y, int b);
void layer_backward(const struct layer *layer, const struct pass *pass, const void *parameters,
                    const float *x, float *y, float *dy, float *dx, float *gradients, int b);

// Prints the banner's line about the model.
void print_model(const struct model *model);
