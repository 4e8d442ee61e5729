// More kinds of layers; related ones share a file of this folder. A new kind needs a new file and
// its lines here.
#pragma once
#include "common/layers/layers.h"
#include "zoo/kernels/attention_kernels.h"
#include "zoo/kernels/image_kernels.h"
#include "zoo/kernels/norm_kernels.h"
#include "zoo/kernels/sequence_kernels.h"
#include <assert.h>

// Which values a layer drops: each one with this probability.
struct dropping {
    float rate;
    int number;        // gives each layer different random numbers
    int shares, share; // 0, or the layer has only share number share of the values of each sample
};

// The settings of each kind.
union settings {
    struct {
        int heads;
        struct dropping dropout;
    } attention;
    int tokens; // of the embedding's table
    struct dropping dropout;
    struct {
        struct windows windows;
        int has_bias;
    } convolution;
    struct windows pool;
    struct augmentation augmentation;
    struct {
        int pixels, groups; // of a sample (norm_kernels.h)
    } norm;
    struct {
        struct layer *shortcut; // its first layer; those before it are the body
    } residual;
    float deviation; // of the initial weights of a linear layer
};

// The member more of a layer.
struct __attribute__((may_alias)) zoo_layer {
    // A layer may consist of inner layers, such as those of a block: the layers from inner to
    // inner_end, or NULL if there are none. The member around of an inner layer points back to the
    // layer that it is a part of. The outputs of an inner layer begin at float offset * b of that
    // layer's outputs and workspace.
    struct layer *inner, *inner_end, *around;
    size_t offset;
    int elementwise; // 1: an output depends on one input and, with parameters, on a bias
    union settings settings;
};
static_assert(sizeof(struct zoo_layer) <= sizeof((struct layer *)0)->more, "raise its size");

static inline struct zoo_layer *zoo_layer(const struct layer *l) {
    return (struct zoo_layer *)l->more;
}

static inline union settings *settings_of(const struct layer *l) {
    return &zoo_layer(l)->settings;
}

// Appends a layer to the model, or to the inner layers if a layer is open (zoo/layers/inner.h). The
// caller sets the settings of its kind.
struct layer *append_layer(struct model *m, const struct layer_kind *kind, struct shape out,
                           int workspace, size_t parameters);

// The functions that append layers with products, attention or dropout call layer_appended when the
// layer is complete. It calls append_hook if that is set, which may change the layer and the model.
extern void (*append_hook)(struct model *m, struct layer *l);
void layer_appended(struct model *m, struct layer *l);

// initialise of a layer without parameters.
void initialise_nothing(const struct layer *layer, float *parameters, size_t first_value,
                        size_t count, uint64_t seed, cudaStream_t stream);

// In training, each value becomes 0 with probability rate, and x / (1 - rate) otherwise, so the
// expected value stays x, as in torch.nn.Dropout. In evaluation, y = x. The layer has no
// parameters. The choice depends on the seed of the pass, the layer and the sample's index in the
// whole batch. It does not depend on how the batch is split. Rate 0 appends no layer.
extern const struct layer_kind dropout;
void append_dropout(struct model *m, float rate);

// The random numbers of a batch whose samples have per_sample values each.
struct numbers dropped_numbers(const struct dropping *dropping, const struct pass *pass,
                               size_t per_sample);

// In training, changes each image at random: crop shifts it, flip mirrors it (image_kernels.h has
// the formula). In evaluation, y = x. Augmentation is the first layer of a model and computes no
// dx. The choice depends on the seed of the pass, which differs between steps, and on the sample's
// index in the whole batch. It does not depend on how the batch is split. words: crop, flip, or
// crop,flip. Returns 0, or -1 with the reason in why.
extern const struct layer_kind augmentation;
int append_augmentation(struct model *m, const char *words, const struct dataset *set,
                        char why[WHY_SIZE]);

// y[oy, ox] = the product of W and the window at (oy, ox) of the image, plus bias, as in
// torch.nn.Conv2d. The parameters are W [outputs, ky, kx, channels] and then, with has_bias, bias
// [outputs]. convolution_relu also sets y = max(y, 0). Initial values are those of torch.nn.Conv2d:
// uniform in +-1/sqrt(size * size * channels). A batch is computed in parts, whose windows are in
// scratch memory, as rows of a matrix: at most patch_workspace() bytes (image_kernels.h), or one
// image.
extern const struct layer_kind convolution, convolution_relu;
void append_convolution(struct model *m, const struct layer_kind *kind, int outputs, int size,
                        int stride, int padding, int has_bias);

// The largest value of each channel in windows of this size beside each other, as in
// torch.nn.MaxPool2d. Rows and columns that are left over at the end are ignored.
extern const struct layer_kind max_pooling;
void append_max_pooling(struct model *m, int size);

// The mean of each channel over all pixels.
extern const struct layer_kind mean_pooling;
void append_mean_pooling(struct model *m);

// Group normalisation, as in torch.nn.GroupNorm: norm_kernels.h has the formula. The parameters are
// scale [channels], initially 1, and shift [channels], initially 0. group_normalisation_relu also
// sets y = max(y, 0).
//
// The course has no batch normalisation. It takes the mean and the variance of all samples that are
// computed together, so the results would depend on how a batch is divided.
extern const struct layer_kind group_normalisation, group_normalisation_relu;
void append_group_norm(struct model *m, const struct layer_kind *kind, int groups);

// Layer normalisation of each token (norm_kernels.h has the formula). The parameters are those of
// group normalisation.
extern const struct layer_kind layer_normalisation;
void append_layer_norm(struct model *m);

// Its backward with dx = other + the gradient of x. other may be NULL, and is then 0.
void norm_backward_adding(const struct layer *l, const struct pass *pass, const void *parameters,
                          const float *x, float *y, const float *dy, const float *other, float *dx,
                          float *gradients, int b);

// y = x W^T for each token, as torch.nn.Linear without a bias. The parameters are W [outputs,
// inputs], initially normal with this deviation.
extern const struct layer_kind linear;
void append_linear(struct model *m, int outputs, float deviation);

// x + bias for each token, with a bias [width] that is initially 0. It is an inner layer, and works
// where the layer before it writes: its x and y are the same array, and so are dx and dy. Weight
// decay leaves biases alone, as in GPT-2.
extern const struct layer_kind bias;
void append_bias(struct model *m);

// The vector of each token plus that of its place in the sequence. It is the first layer of a
// model, so it computes no dx. The parameters are vectors of the tokens [tokens, width] and then of
// the places [context, width], initially normal with deviation 0.02.
extern const struct layer_kind embedding;
void append_embedding(struct model *m, int tokens, int width);

// GELU of x + bias (value_kernels.h has the formula). It is a layer inside of a sublayer.
extern const struct layer_kind gelu_layer;
void append_gelu(struct model *m);

// Causal self-attention with several heads (Vaswani et al., "Attention is all you need", 2017). The
// inputs are queries, keys and values of each token, side by side, and the outputs are as wide as
// one of them. For each head, with T tokens and D values of a token:
//   p = softmax(queries keys^T / sqrt(D)), where a token sees itself and those before it;
//   outputs = p values
// In training, values of p become 0 with probability dropout. The layer has no parameters.
//
// It stores neither p nor the scores, which would take T * T floats for each head
// (attention_kernels.h), but computes them again in backward. It keeps a float for each query of
// each head after the outputs.
extern const struct layer_kind attention;
void append_attention(struct model *m, int heads, float dropout);

// Layers in a row that count as one layer of the model: those appended between begin_block and
// end_inner (zoo/layers/inner.h). Steps that gather, recompute or place layers treat it as one.
extern const struct layer_kind block;
void begin_block(struct model *m);

// A residual block (He et al., "Deep residual learning for image recognition", 2016):
// y = max(body(x) + shortcut(x), 0). Both are lists of layers. An empty shortcut is x itself. The
// layers appended between begin_residual and begin_shortcut are the body, and those up to
// end_residual the shortcut. Without begin_shortcut, it is x.
extern const struct layer_kind residual;
void begin_residual(struct model *m);
void begin_shortcut(struct model *m);
void end_residual(struct model *m);

// A sublayer of a transformer: y = x + body(x). The body begins with a layer normalisation, and the
// layers appended up to end_inner follow it. The arrays between its layers are values
// (zoo/layers/inner.h). None of its layers may overwrite dy, and the last one may not read its own
// outputs in backward, because they are not kept.
extern const struct layer_kind sublayer;
void begin_sublayer(struct model *m);
